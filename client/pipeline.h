// Runs the groups of one round at a time: packing on the compute loop, exchanging on the net loop,
// in the scheduler's order. The trainer's thread only marks gradients and waits.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/loop.h"
#include "client/exchange/exchange.h"
#include "client/exchange/round_totals.h"
#include "client/exchange/tensor.h"
#include "client/scheduler.h"
#include "timeline/observer.h"

namespace ringwood {

// The result of a round on this worker, once all groups are done.
struct RoundSummary {
  uint64_t digest = 0;  // of the sums of all groups, in plan order
  bool non_finite = false;
  std::optional<Totals> totals;  // of all ranks; in elastic jobs, and in those with an update log
  uint64_t dense_bytes = 0;      // sent
  uint64_t sparse_bytes = 0;
};

class Pipeline {
 public:
  // What a pipeline runs on. It outlives all work: the owner closes the transport after Fail, and
  // always drains both loops, before it aborts or destroys the pipeline.
  struct Shell {
    Loop* compute = nullptr;
    Loop* net = nullptr;
    Transport* transport = nullptr;
    Observer* observer = nullptr;  // of all events between RoundBegun and GroupEnded
    // Each group whose sum is there, before Wait returns; net loop. Optional.
    std::function<void(int group, uint64_t round)> exchanged = nullptr;
    // Asked before each group starts: who is told what is reached of its sums. Optional, and so is
    // its answer; without one nobody may look at sums in this round.
    std::function<Exchange::Reached(int group, uint64_t round)> reached = nullptr;
    LaneWindows windows = {};
  };

  // `exchanges`: one for each group of `plan`, which has number `generation` in this epoch. With
  // `totals` a round is done when they are known, too.
  Pipeline(const Shell& shell, const Plan& plan, uint32_t generation, size_t tensors,
           std::vector<std::unique_ptr<Exchange>> exchanges,
           std::unique_ptr<RoundTotals> totals = nullptr);

  // Starts a round; the one before was applied or aborted. The weight is 1 until SetWeight.
  void Begin(uint64_t round);

  // Refused when a gradient of this round is ready already.
  Status SetWeight(double weight);

  Status Ready(TableIndex tensor);  // any thread; enqueues. OK after a failure, which Wait returns
  bool IsReady(TableIndex tensor);
  bool IsOpen();  // a gradient of the round is ready
  std::vector<TableIndex> Missing();

  // Waits until all groups are done, the first error, or `limit`.
  Status Wait(Duration limit);

  // Ends the round with `reason`; groups that have not started never do.
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
  void StartTotals();  // any thread: posts to the net loop
  void Checked();      // compute or net loop

  Status NamedGroup(int group, const Status& status) const;

  const Shell shell_;
  const Plan plan_;
  const uint32_t generation_;
  const std::vector<std::unique_ptr<Exchange>> exchanges_;
  std::vector<std::pair<size_t, size_t>> places_;  // by tensor: its group, its place in that
  const std::unique_ptr<RoundTotals> totals_;      // null: the commit alone says them

  absl::Mutex mutex_;
  Scheduler scheduler_ ABSL_GUARDED_BY(mutex_);
  uint64_t round_ ABSL_GUARDED_BY(mutex_) = 0;
  double weight_ ABSL_GUARDED_BY(mutex_) = 1;
  size_t unchecked_ ABSL_GUARDED_BY(mutex_) = 0;  // groups that may have a NaN nobody has seen
  bool totalled_ ABSL_GUARDED_BY(mutex_) = false;
  bool any_ready_ ABSL_GUARDED_BY(mutex_) = false;
  Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ringwood
