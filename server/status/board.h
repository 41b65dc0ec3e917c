// The board of a job: what its status shows beyond the membership's own state. It watches what
// happens to the membership and what follows from it, and keeps for each slot what was reported,
// how late the ranks were, the last events and the checkpoints. Nothing depends on it.
//
// Bounded: a record for each slot of the job, kMostEvents events. Thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/clock.h"
#include "server/coordinator/event.h"
#include "server/status/slot_record.h"

namespace ringwood {

class Board {
 public:
  static constexpr size_t kMostEvents = 200;
  static constexpr size_t kMostCheckpoints = 16;
  static constexpr size_t kRateSteps = 50;  // commits that the rate is taken over

  explicit Board(double heartbeat_seconds) : heartbeat_seconds_(heartbeat_seconds) {}

  // In the order in which it happened, with the actions that followed.
  void Saw(const Event& event, const Actions& actions, TimePoint now, double unix_seconds);
  // A checkpoint of `job` that was complete when the server began. Before the job does.
  void Found(uint64_t job, const CheckpointId& id, double unix_seconds);
  // A checkpoint of `job` is complete; `kept` are the newest, it included.
  void Completed(uint64_t job, const std::vector<CheckpointId>& kept, double unix_seconds);

  // Completes what the membership says of itself.
  void Complete(v1::StatusResponse* status, TimePoint now, double unix_seconds) const;

 private:
  using Seat = std::pair<v1::Role, uint32_t>;

  void Take(const event::Heartbeat& heard) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Take(const event::StreamBroken& broken) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Take(const event::Leave& left) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Take(const event::Vote& vote) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  template <typename Other>
  void Take(const Other&) {}
  void Follow(const action::Activate& activate) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Follow(const action::Verdict& verdict) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Follow(const action::Report& report) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Follow(const action::Reply& reply) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  template <typename Other>
  void Follow(const Other&) {}

  SlotRecord* Find(uint64_t epoch, uint32_t node, uint64_t incarnation)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Committed(uint64_t round) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Note(LogLevel level, const std::string& name, const std::string& text,
            std::optional<uint32_t> slot = std::nullopt) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const double heartbeat_seconds_;
  mutable absl::Mutex mutex_;
  TimePoint now_ ABSL_GUARDED_BY(mutex_);  // of the event in hand
  double unix_seconds_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t job_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t epoch_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t round_ ABSL_GUARDED_BY(mutex_) = 0;  // the last that was committed
  uint64_t epochs_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t failures_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string last_failure_ ABSL_GUARDED_BY(mutex_);  // of this job
  std::map<Seat, SlotRecord> slots_ ABSL_GUARDED_BY(mutex_);
  std::vector<SlotRecord*> members_ ABSL_GUARDED_BY(mutex_);  // of the epoch, by node
  // Of the round that is voted on, by node: when the last gradient was ready.
  std::map<uint32_t, TimePoint> ready_ ABSL_GUARDED_BY(mutex_);
  std::deque<TimePoint> commits_ ABSL_GUARDED_BY(mutex_);
  std::deque<v1::JobEvent> events_ ABSL_GUARDED_BY(mutex_);
  std::map<CheckpointId, double> checkpoints_ ABSL_GUARDED_BY(mutex_);  // when each was completed
  // Those of before, by job.
  std::map<uint64_t, std::map<CheckpointId, double>> found_ ABSL_GUARDED_BY(mutex_);
  uint64_t completed_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace ringwood
