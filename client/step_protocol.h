// The steps of a worker: a round is opened, its groups are exchanged, this worker votes, and what
// the coordinator commits is applied; everything else fails the epoch.
//
//   Begin ─► ready calls, groups are exchanged ─► vote ─► in doubt ─► commit ─► apply ─► next round
//                          │                                 │
//                          └──────────── error ──────────────┴─► abort: as if the step had not run
//
// In an elastic job a round that was exchanged when its epoch ended stays as it is (prepared) until
// the next epoch's base is known: it is applied if that says so, else exchanged again.
//
// Trainer's thread; keeps nothing of an epoch but its number.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/status.h"
#include "client/checkpoint/save_clock.h"
#include "client/connection/epoch_link.h"
#include "client/departures.h"
#include "client/pipeline.h"
#include "client/plan_agreement.h"
#include "client/plan_in_force.h"
#include "client/replanner.h"
#include "client/skipped_steps.h"
#include "client/tensor_states.h"
#include "client/tensor_table.h"
#include "client/updates/update_writer.h"
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
  // As they were started (slots), ascending: the workers of the epoch that committed the step, and
  // those with a weight above 0.
  std::vector<int> members;
  std::vector<int> contributors;
  int exchanged_again = 0;      // times that an epoch ended under the step and it began anew
  bool received = false;        // the state before the step came from other workers
  bool checkpoint_due = false;  // by the measured cost of one, see SaveClock, or before an end
  bool ending = false;          // some process of the epoch was asked to end
};

class StepProtocol {
 public:
  // All outlive this.
  StepProtocol(const TensorTable& table, TensorStates* states, PlanInForce* plan,
               PlanAgreement* agreement, Replanner* replanner, Departures* departures,
               UpdateWriter* updates, SaveClock* saves, SkippedSteps* skips, Observer* observer)
      : table_(table),
        states_(states),
        plan_(plan),
        agreement_(agreement),
        replanner_(replanner),
        departures_(departures),
        updates_(updates),
        saves_(saves),
        skips_(skips),
        observer_(observer) {}

  // Before the first step.
  void StartFrom(const v1::JoinResponse& joined, Connection* connection) {
    EnterLog(joined, connection);
    epoch_ = joined.epoch();
    step_ = joined.base_step() - joined.logged_steps();
    replays_ = joined.logged_steps();
    receiving_ = !joined.holders().empty();
  }
  // Rounds of the update log that are to be replayed before the next one begins.
  uint64_t replays() const { return replays_; }  // any thread
  void Replayed() {
    ++step_;
    --replays_;
  }
  uint64_t step() const { return step_; }  // committed; any thread
  // The step after the replay: a worker that is to replay rounds counts as having them.
  uint64_t held_step() const { return step_ + replays_; }
  double weight() const { return receiving_ ? 0 : weight_; }

  // The state of the job is with other workers and has not come: rounds have the weight 0 here, and
  // Finish needs no gradient.
  bool receiving() const { return receiving_; }  // any thread
  void Received() { receiving_ = false; }
  // Of a worker that receives the state: whether the last round that it prepared was committed,
  // with what it brought, is not known. What its tensors owe cannot be told from what was sent
  // then.
  bool in_doubt() const { return in_doubt_; }

  // With a plan in force; refused once a tensor is ready. Without it a step has the weight 1.
  // `pass`: which exchange of the trainer's update this is, alike on all ranks; 0: not said.
  Status Begin(double weight, uint32_t pass);

  // Blocks until the round is applied. An error means that this worker has not applied it and that
  // the epoch has failed, but for Refused: then nothing has happened. The commit may end the epoch:
  // at once, if some leave with it (`some_leave`), else where the next step is finished.
  StatusOr<StepResult> Finish(EpochLink* link);
  bool regroup() const { return regroup_; }
  bool some_leave() const { return some_leave_; }

  // The round in hand is this worker's last. Of an elastic job.
  void Leave() { leaving_ = true; }
  // Between two steps, on all ranks: those of `leaving`, some but not all, have made their last.
  void LetGo(const std::vector<int>& leaving, EpochLink* link);

  // This process was asked to end: the ranks hear it with the next commit. Any thread.
  void AskToEnd() { ending_ = true; }

  // The epoch of `link` has ended, and the loops are drained: what this worker has.
  v1::Held HeldOf(EpochLink* link);
  // The next epoch begins as `joined` says: applies or drops the round that `link` ended under, or
  // starts over with the state of others. An error is final: this worker cannot go on from there.
  Status Settle(const v1::JoinResponse& joined, EpochLink* link);
  // The result of a round that Settle has applied, once.
  std::optional<StepResult> TakeSettled() { return std::exchange(settled_, std::nullopt); }
  // A step was applied in part: this worker has no state to go on with.
  bool broken() const { return broken_; }

 private:
  void EnterLog(const v1::JoinResponse& joined, Connection* connection);
  uint64_t round() const { return step_ + 1; }
  Status CheckComplete(int rank);
  Status BringNothing();
  void Drop();
  void LogRound(const Totals& totals, const EpochLink& of, const std::function<bool()>& lives);
  StatusOr<v1::Commit> Vote(const RoundSummary& summary, EpochLink* link);
  Status Apply(const Totals& totals, EpochLink* link);
  Status Abort(const Status& status, EpochLink* link);
  StepResult Ended(const Totals& totals, const RoundSummary& summary, const EpochLink& link);
  template <typename Said>  // a Commit, or the JoinResponse after it
  void TakeAsks(const Said& said);

  const TensorTable& table_;
  TensorStates* const states_;
  PlanInForce* const plan_;
  PlanAgreement* const agreement_;
  Replanner* const replanner_;
  Departures* const departures_;
  UpdateWriter* const updates_;
  SaveClock* const saves_;
  SkippedSteps* const skips_;
  Observer* const observer_;
  std::atomic<uint64_t> step_{0};  // written on the trainer's thread
  std::atomic<uint64_t> replays_{0};
  double weight_ = 1;
  uint32_t pass_ = 0;
  bool begun_ = false;  // Begin was called for the present step
  int exchanged_again_ = 0;
  uint64_t epoch_ = 0;                    // the last one that this worker was active in
  std::optional<RoundSummary> prepared_;  // elastic: of the present round, in doubt until the base
  std::optional<StepResult> settled_;
  std::atomic<bool> receiving_{false};
  bool in_doubt_ = false;
  bool leaving_ = false;
  std::atomic<bool> ending_{false};
  bool regroup_ = false;
  bool some_leave_ = false;                             // and the epoch ends with it
  bool checkpoint_due_ = false, asked_to_end_ = false;  // by the commit of `step_`
  bool checkpoint_wanted_ = false;                      // by a reader, as the last commit said
  bool broken_ = false;
};

}  // namespace ringwood
