#include "server/coordinator/epoch/epoch_plan.h"

namespace ringwood {

Agreement::Label EpochPlan::Labels() const {
  return [this](uint32_t rank) { return roster_.Label(rank); };
}

Status EpochPlan::Restore(const v1::AgreeRequest& table, uint64_t from_round, uint32_t generation,
                          const std::vector<uint32_t>& without_plan) {
  RW_ASSIGN_OR_RETURN(plan_, ActivePlan::Make(table, from_round, generation, roster_));
  table_ = table;
  without_plan_.insert(without_plan.begin(), without_plan.end());
  return OkStatus();
}

bool EpochPlan::AsksAgain(uint32_t rank) const {
  return plan_ && agreement_ == nullptr && without_plan_.contains(rank);
}

Status EpochPlan::Take(CallId call, const v1::AgreeRequest& request, Outbox* out) {
  if (agreement_ == nullptr) agreement_ = std::make_unique<Agreement>(roster_.world(), Labels());
  CallId displaced = 0;
  const Status added = agreement_->Add(call, request, &displaced);
  out->Reply(displaced, Aborted("this rank asked again"));
  if (!added.ok()) out->Reply(call, added);
  return added;
}

Status EpochPlan::TakeAgain(CallId call, const v1::AgreeRequest& request, Outbox* out) {
  Told(request.rank());
  Agreement both(2, Labels());
  CallId displaced = 0;
  Status same = both.Add(0, *table_, &displaced);
  if (same.ok()) same = both.Add(call, request, &displaced);
  if (same.ok()) {
    out->Reply(call, Agreed());
  } else {
    out->Reply(call, same);
  }
  return same;
}

v1::AgreeResponse EpochPlan::Agreed() const {
  v1::AgreeResponse response;
  *response.mutable_plan() = plan_->plan();
  response.set_from_round(plan_->from_round());
  return response;
}

Status EpochPlan::Activate(uint64_t from_round) {
  StatusOr<ActivePlan> plan =
      ActivePlan::Make(agreement_->table(), from_round, plan_ ? plan_->generation() : 0, roster_);
  plan_.reset();
  RW_RETURN_IF_ERROR(plan.status());
  plan_ = *std::move(plan);
  table_ = agreement_->table();
  return OkStatus();
}

void EpochPlan::Answer(Outbox* out) {
  out->ReplyAll(agreement_->Calls(), Agreed());
  agreement_.reset();
}

void EpochPlan::Refuse(const Status& status, Outbox* out) {
  if (agreement_ != nullptr) out->ReplyAll(agreement_->Calls(), status);
  agreement_.reset();
}

bool EpochPlan::CallGone(CallId call) {
  return agreement_ != nullptr && agreement_->CallGone(call);
}

bool EpochPlan::Admits(const v1::Plan& plan, Outbox* out) const {
  const Status admitted = plan_->Admit(plan, roster_);
  if (!admitted.ok()) out->Say("plan_refused", "a new plan is not taken: " + Message(admitted));
  return admitted.ok();
}

}  // namespace ringwood
