// Runs the groups of one round at a time: packing on the compute loop, exchanging on the net loop,
// in the order that the scheduler decides. The trainer's thread only marks and waits.
#pragma once

#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/loop.h"
#include "client/exchange/exchange.h"
#include "client/exchange/tensor.h"
#include "client/scheduler.h"
#include "timeline/observer.h"

namespace ringwood {

// What a round came to on this worker, once all groups are done.
struct RoundSummary {
  uint64_t digest = 0;  // of the sums of all groups, in plan order
  bool non_finite = false;
  uint64_t dense_bytes = 0;  // sent
  uint64_t sparse_bytes = 0;
};

class Pipeline {
 public:
  // What everything of a pipeline runs on; all of it outlives all work: after Fail the owner closes
  // the transport, and in any case drains both loops, before it aborts or destroys this.
  struct Shell {
    Loop* compute = nullptr;
    Loop* net = nullptr;
    Transport* transport = nullptr;
    Observer* observer = nullptr;  // of all events between RoundBegun and GroupEnded
  };

  // `exchanges` one a group of `plan`, the plan of number `generation` in this epoch.
  Pipeline(const Shell& shell, const Plan& plan, uint32_t generation, size_t tensors,
           std::vector<std::unique_ptr<Exchange>> exchanges);

  // The next round; the one before has been applied or aborted. The weight is 1 until SetWeight.
  void Begin(uint64_t round);

  // Refused when a gradient of this round is ready already.
  Status SetWeight(float weight);

  Status Ready(TableIndex tensor);  // any thread; enqueues. OK after a failure, which Wait tells
  bool IsReady(TableIndex tensor);
  std::vector<TableIndex> Missing();

  // Until all groups are done, the first error, or `limit`.
  Status Wait(Duration limit);

  // The round ends with `reason`; groups that have not started never will.
  void Fail(const Status& reason);

  // After Wait was OK.
  RoundSummary Summary() const;
  void Apply(double total_weight);
  // After Wait was OK, or after Fail with both loops drained.
  void Abort();

 private:
  void Pack(int group);                                          // compute loop
  void Packed(int group, uint64_t round, const Status& status);  // compute loop
  void Start(const std::vector<int>& groups);  // any thread: posts to the net loop
  void Exchanged(int group, uint64_t round, const Status& status);  // net loop

  Status NamedGroup(int group, const Status& status) const;

  const Shell shell_;
  const Plan plan_;
  const uint32_t generation_;
  const std::vector<std::unique_ptr<Exchange>> exchanges_;

  absl::Mutex mutex_;
  Scheduler scheduler_ ABSL_GUARDED_BY(mutex_);
  uint64_t round_ ABSL_GUARDED_BY(mutex_) = 0;
  float weight_ ABSL_GUARDED_BY(mutex_) = 1;
  bool any_ready_ ABSL_GUARDED_BY(mutex_) = false;
  Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ringwood
