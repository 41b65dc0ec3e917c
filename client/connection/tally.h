// What this process has done so far, as its heartbeats report it (v1::MemberReport): sums over the
// rounds that it applied, so that the coordinator's totals are the trainer's own. A round that was
// exchanged twice counts once, with the bytes of its last exchange. Thread-safe; a lock and a few
// additions an event.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "ringwood/v1/control.pb.h"
#include "timeline/busy_time.h"
#include "timeline/observer.h"

namespace ringwood {

class Tally : public Observer {
 public:
  // `memory_bound_bytes`: what the session may take for the copy of a checkpoint.
  explicit Tally(uint64_t memory_bound_bytes);

  void Loaded(uint64_t round, TimePoint at);  // the data of this round is there
  // Of a checkpoint with this process's part: complete on all ranks, or not.
  void CheckpointEnded(uint64_t step, bool complete, Duration took);

  void Fill(v1::MemberReport* report) const;  // with the memory of this moment
  // Since the last gradient of the round in hand was ready; none is: nothing.
  std::optional<double> SinceReady(TimePoint now) const;

  void PlanAdopted(const Plan& plan, const std::vector<TensorSpec>& table,
                   uint64_t from_round) override;
  void RoundBegun(uint64_t round, TimePoint at) override;
  void GradientReady(uint64_t round, uint32_t tensor, TimePoint at) override;
  void GroupStarted(uint64_t round, uint32_t group, TimePoint at) override;
  void GroupEnded(uint64_t round, uint32_t group, uint64_t sent_bytes, TimePoint at) override;
  void Voted(uint64_t round, uint64_t digest, TimePoint at) override;
  void Committed(uint64_t round, bool skipped, TimePoint at) override;
  void Applied(uint64_t round, TimePoint at) override;

 private:
  struct PlannedGroup {
    bool tree = false;
    double seconds = 0;  // predicted
  };
  // The round in hand. A moment that has not come is as early as the clock begins.
  struct Round {
    uint64_t number = 0;
    bool again = false;  // an epoch ended under it, after its gradients were ready
    bool skipped = false;
    TimePoint begun, loaded, first_ready, last_ready, voted, committed;
    v1::LaneReport ring, tree;
    BusyTime ring_time, tree_time;
  };

  BusyTime* TimeOf(const PlannedGroup& group) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return group.tree ? &round_.tree_time : &round_.ring_time;
  }
  void Fold(TimePoint end) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  v1::MemberReport sums_ ABSL_GUARDED_BY(mutex_);
  std::vector<PlannedGroup> groups_ ABSL_GUARDED_BY(mutex_);  // of the plan in force
  double predicted_seconds_ ABSL_GUARDED_BY(mutex_) = 0;
  Round round_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ringwood
