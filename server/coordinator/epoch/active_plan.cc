#include "server/coordinator/epoch/active_plan.h"

#include "plan/wire.h"
#include "server/coordinator/admission.h"

namespace ringwood {

StatusOr<ActivePlan> ActivePlan::Make(const v1::AgreeRequest& table, uint64_t from_round,
                                      uint32_t generation, const Roster& roster) {
  ActivePlan made;
  made.generation_ = generation;
  made.activated_.set_from_round(from_round);
  *made.activated_.mutable_tensors() = table.tensors();
  *made.activated_.mutable_plan() = table.plan();
  RW_RETURN_IF_ERROR(made.Admit(table.plan(), roster));
  return made;
}

Status ActivePlan::Admit(const v1::Plan& plan, const Roster& roster) const {
  return AdmitPlan(plan, tensors(), roster.world(), roster.Servers(), roster.Hosts());
}

v1::Notice ActivePlan::Notice(uint64_t committed) const {
  v1::Notice notice;
  *notice.mutable_plan() = activated_;
  notice.mutable_plan()->set_from_round(WireRound(generation_, committed + 1));
  return notice;
}

}  // namespace ringwood
