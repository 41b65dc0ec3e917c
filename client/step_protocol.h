// The steps of a worker: a round is opened, its groups are exchanged, this worker votes, and what
// the coordinator commits is applied; everything else fails the epoch.
//
//   Begin ─► ready calls, groups are exchanged ─► vote ─► in doubt ─► commit ─► apply ─► next round
//                          │                                 │
//                          └──────────── error ──────────────┴─► abort: as if the step had not run
//
// Trainer's thread; keeps nothing of an epoch.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "base/status.h"
#include "client/connection/epoch_link.h"
#include "client/pipeline.h"
#include "client/plan_agreement.h"
#include "client/plan_in_force.h"
#include "client/replanner.h"
#include "client/tensor_states.h"
#include "client/tensor_table.h"
#include "ringwood/v1/control.pb.h"
#include "timeline/observer.h"

namespace ringwood {

struct StepResult {
  uint64_t step = 0;  // committed steps, this one included, skipped ones too
  bool skipped = false;
  double total_weight = 0;
  uint64_t dense_bytes = 0;
  uint64_t sparse_bytes = 0;
  uint64_t dense_equivalent_bytes = 0;
  // Ranks, ascending: the workers of the epoch that committed the step, and those with a weight
  // above 0.
  std::vector<int> members;
  std::vector<int> contributors;
};

class StepProtocol {
 public:
  // All outlive this.
  StepProtocol(const TensorTable& table, TensorStates* states, PlanInForce* plan,
               PlanAgreement* agreement, Replanner* replanner, Observer* observer)
      : table_(table),
        states_(states),
        plan_(plan),
        agreement_(agreement),
        replanner_(replanner),
        observer_(observer) {}

  void StartFrom(uint64_t step) { step_ = step; }  // before the first step
  uint64_t step() const { return step_; }          // committed; any thread

  // With a plan in force; refused once a tensor is ready. Without it a step has the weight 1.
  Status Begin(double weight);

  // Blocks until the round is applied. An error means that this worker has not applied it and that
  // the epoch has failed, but for Refused: then nothing has happened.
  StatusOr<StepResult> Finish(EpochLink* link);

 private:
  uint64_t round() const { return step_ + 1; }
  Status CheckComplete(int rank);
  StatusOr<v1::Commit> Vote(const RoundSummary& summary, EpochLink* link);
  Status Apply(Pipeline* pipeline, const v1::Commit& commit, EpochLink* link);
  Status Abort(const Status& status, EpochLink* link);
  StepResult ResultOf(const v1::Commit& commit, const RoundSummary& summary, int world) const;

  const TensorTable& table_;
  TensorStates* const states_;
  PlanInForce* const plan_;
  PlanAgreement* const agreement_;
  Replanner* const replanner_;
  Observer* const observer_;
  std::atomic<uint64_t> step_{0};  // written on the trainer's thread
  double weight_ = 1;
  bool begun_ = false;  // Begin was called for the present step
};

}  // namespace ringwood
