// The plan of an epoch: the tables that its ranks bring until they agree, the plan that is in force
// then, and the ranks that may not have been told of it. Answers the calls of ranks that wait for
// the others. Pure.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "server/coordinator/epoch/active_plan.h"
#include "server/coordinator/epoch/agreement.h"
#include "server/coordinator/outbox.h"
#include "server/coordinator/roster.h"

namespace ringwood {

class EpochPlan {
 public:
  explicit EpochPlan(const Roster& roster) : roster_(roster) {}  // which outlives it

  // Goes on with what was agreed on before the coordinator was started again; `without_plan`:
  // ranks that were not told. An error: the plan cannot run.
  Status Restore(const v1::AgreeRequest& table, uint64_t from_round, uint32_t generation,
                 const std::vector<uint32_t>& without_plan);

  // ---- until the ranks agree ----

  // The others were told of the plan, by this coordinator or one that died; this rank asks again.
  bool AsksAgain(uint32_t rank) const;
  // An error ends the epoch: its tables are not the others', or the plan cannot run. The call is
  // answered then, and where the rank AsksAgain.
  Status Take(CallId call, const v1::AgreeRequest& request, Outbox* out);
  Status TakeAgain(CallId call, const v1::AgreeRequest& request, Outbox* out);
  bool complete() const { return agreement_ != nullptr && agreement_->Complete(); }
  // When complete. An error: the plan cannot run, and nobody is answered.
  Status Activate(uint64_t from_round);
  void Answer(Outbox* out);                        // tells the ranks, once the reducers know
  void Refuse(const Status& status, Outbox* out);  // tells those that wait

  bool agreeing() const { return agreement_ != nullptr; }
  std::vector<uint32_t> Missing() const { return agreement_->Missing(); }  // while agreeing
  bool CallGone(CallId call);  // true: it waited here, and is not answered

  // ---- while it is in force ----

  const ActivePlan* active() const { return plan_ ? &*plan_ : nullptr; }
  bool Admits(const v1::Plan& plan, Outbox* out) const;  // false: the log says why not
  void Change(const v1::Plan& plan) { plan_->Change(plan); }

  void NotTold(uint32_t rank) { without_plan_.insert(rank); }
  void Told(uint32_t rank) { without_plan_.erase(rank); }

 private:
  Agreement::Label Labels() const;
  v1::AgreeResponse Agreed() const;

  const Roster& roster_;
  std::unique_ptr<Agreement> agreement_;   // while tables arrive
  std::optional<v1::AgreeRequest> table_;  // rank 0's, which the others were compared with
  std::set<uint32_t> without_plan_;        // ranks that may not have been told of the plan
  std::optional<ActivePlan> plan_;         // once the tables were agreed on
};

}  // namespace ringwood
