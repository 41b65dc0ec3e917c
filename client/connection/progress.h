// What this worker's heartbeats say of its work: the coordinator sees from it whom the others wait
// for, and why. Thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "ringwood/v1/control.pb.h"
#include "timeline/observer.h"

namespace ringwood {

class Progress : public Observer {
 public:
  void Entered(uint64_t step);  // an epoch begins after this step
  void Took(uint64_t step);     // it is committed, and applied here
  void Loaded(uint64_t round);  // the data of this round is there
  void TookPart();              // a collective has ended: the start is over
  void GroupCallEnded();        // one of a communicator
  void Calls(uint64_t piece);   // waits in this piece of a collective, from 1; 0: no longer
  void SaveBegun();             // a checkpoint was asked for, and may have failed at once
  void Saving(bool waits);      // for that checkpoint, or the one before it
  uint64_t saves() const;       // begun in this epoch
  void Fill(v1::Beat* beat) const;

  // Also for a round that is exchanged again in another epoch: its gradients count anew there.
  void PlanAdopted(const Plan& plan, const std::vector<TensorSpec>& table,
                   uint64_t from_round) override;
  void RoundBegun(uint64_t round, TimePoint at) override;
  void GradientReady(uint64_t round, uint32_t tensor, TimePoint at) override;

 private:
  mutable absl::Mutex mutex_;
  uint64_t step_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t progress_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t loaded_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t call_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t saves_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t group_calls_ ABSL_GUARDED_BY(mutex_) = 0;
  bool saving_ ABSL_GUARDED_BY(mutex_) = false;
  bool begun_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<bool> ready_ ABSL_GUARDED_BY(mutex_);  // of the round, in plan order
};

}  // namespace ringwood
