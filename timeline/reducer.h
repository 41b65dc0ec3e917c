// A reducer's timeline: how each group went through it, and the other ends of the ranks' arrows.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "timeline/chunk_notes.h"
#include "timeline/observer.h"
#include "timeline/output.h"
#include "timeline/span.h"

namespace ringwood {

class ReducerTimeline : public ChunkSink {
 public:
  // Replaces what is at `file`.
  static StatusOr<std::unique_ptr<ReducerTimeline>> Create(const std::string& file);
  ~ReducerTimeline() override;

  // An epoch begins: the file holds the newest one. `session.rank` is the reducer's node.
  void Opened(const ObservedSession& session);

  void Sent(int peer, const MessageName& name, uint64_t bytes, int64_t begin_nanoseconds,
            int64_t end_nanoseconds) override;
  void Received(int peer, const MessageName& name, int64_t at_nanoseconds) override;

 private:
  explicit ReducerTimeline(std::unique_ptr<TimelineOutput> output) : output_(std::move(output)) {}
  ChunkNotes* NotesOf(const MessageName& name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WriteOldest() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  absl::Mutex mutex_;
  int node_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, ChunkNotes> rounds_ ABSL_GUARDED_BY(mutex_);  // not written yet
  const std::unique_ptr<TimelineOutput> output_;
};

// The "reduce" span of each group, from its last entries' arrival until all answers are sent. Spans
// do not overlap: a group that arrives while the one before is still sent begins at its end. Pure.
std::vector<TimelineSpan> ReduceSpans(const std::vector<TimelineChunk>& chunks);

}  // namespace ringwood
