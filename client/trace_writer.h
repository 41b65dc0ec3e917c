// An observer that writes a rank's timeline to a file, round by round, on a thread of its own.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/loop.h"
#include "client/trace_observer.h"
#include "client/trace_span.h"
#include "client/trace_transport.h"

namespace ringwood {

class TraceWriter : public TraceObserver, public ChunkSink {
 public:
  // Events and chunks of one round at most; beyond them it goes incomplete into the file.
  static constexpr size_t kMaxEvents = 1 << 18;
  static constexpr size_t kMaxChunks = 1 << 18;
  // Rounds that wait for the disk at most; beyond them rounds are left out.
  static constexpr int kMaxWaiting = 64;

  // Replaces what is at `file`.
  static StatusOr<std::unique_ptr<TraceWriter>> Create(const std::string& file);
  ~TraceWriter() override;  // writes what is left, for ten seconds at most

  void Opened(const ObservedSession& session) override;
  void PlanAdopted(const Plan& plan, const std::vector<TensorSpec>& table,
                   uint64_t from_round) override;
  void Take(const TraceEvent& event) override;
  void Sent(int peer, const MessageName& name, uint64_t bytes, int64_t begin_nanoseconds,
            int64_t end_nanoseconds) override;
  void Received(int peer, const MessageName& name, int64_t at_nanoseconds) override;

 private:
  struct Batch {  // one round
    uint64_t round = 0;
    std::shared_ptr<const TraceLabels> labels;
    std::vector<TraceEvent> events;
    std::vector<TraceChunk> chunks;
  };

  TraceWriter(std::string file, int descriptor);
  TraceChunk* ChunkOf(const MessageName& name, int64_t at) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Flush() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);  // hands the batch to the loop
  void Write(const std::string& lines);                // on the loop

  const std::string file_;
  const int descriptor_;  // written on the loop only
  bool broken_ = false;   // touched only on the loop

  absl::Mutex mutex_;
  int rank_ ABSL_GUARDED_BY(mutex_) = 0;
  Batch batch_ ABSL_GUARDED_BY(mutex_);
  int waiting_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t left_out_ ABSL_GUARDED_BY(mutex_) = 0;

  std::unique_ptr<Loop> loop_;  // last: it uses everything above
};

}  // namespace ringwood
