// An observer that writes a rank's timeline to a file, round by round, on a thread of its own.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "timeline/chunk_notes.h"
#include "timeline/event_observer.h"
#include "timeline/output.h"
#include "timeline/span.h"

namespace ringwood {

class TimelineWriter : public TimelineObserver, public ChunkSink {
 public:
  // Most events of one round; a longer round is written incomplete.
  static constexpr size_t kMaxEvents = 1 << 18;

  // Replaces what is at `file`.
  static StatusOr<std::unique_ptr<TimelineWriter>> Create(const std::string& file);
  ~TimelineWriter() override;  // writes what is left

  void Opened(const ObservedSession& session) override;
  void PlanAdopted(const Plan& plan, const std::vector<TensorSpec>& table,
                   uint64_t from_round) override;
  void Take(const TimelineEvent& event) override;
  void Sent(int peer, const MessageName& name, uint64_t bytes, int64_t begin_nanoseconds,
            int64_t end_nanoseconds) override;
  void Received(int peer, const MessageName& name, int64_t at_nanoseconds) override;

 private:
  struct Batch {  // one round
    uint64_t round = 0;
    std::shared_ptr<const TimelineLabels> labels;
    std::vector<TimelineEvent> events;
    ChunkNotes notes;
  };

  explicit TimelineWriter(std::unique_ptr<TimelineOutput> output) : output_(std::move(output)) {}
  void Flush() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);  // hands the batch over to be written

  absl::Mutex mutex_;
  int rank_ ABSL_GUARDED_BY(mutex_) = 0;
  Batch batch_ ABSL_GUARDED_BY(mutex_);
  const std::unique_ptr<TimelineOutput> output_;
};

}  // namespace ringwood
