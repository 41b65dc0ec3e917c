// Session's half that fixes the table, agrees on the plan and changes it.
#include "absl/strings/str_format.h"
#include "base/out_of_memory.h"
#include "client/connection/hop_probe.h"
#include "client/plan_proposal.h"
#include "client/session.h"
#include "plan/wire.h"

namespace ringwood {
Status Session::Agree() {
  if (agreed_) return OkStatus();
  RW_RETURN_IF_ERROR(link_->status());
  v1::AgreeRequest request;
  request.set_epoch(epoch());
  request.set_rank(static_cast<uint32_t>(rank()));
  request.set_incarnation(connection_->incarnation());
  table_.Describe(&request);
  for (const auto& [name, value] : Agreed(options_)) {
    v1::Setting* setting = request.add_settings();
    setting->set_name(name);
    setting->set_value(value);
  }
  v1::Setting* const memory = request.add_settings();
  memory->set_name("memory of the tensors");
  memory->set_value(table_.IsOnDevice() ? "device" : "host");
  if (rank() == 0) {
    RW_ASSIGN_OR_RETURN(const Plan plan, ProposePlan(options_, link_->place(), table_,
                                                     checkpoints_->restore(), step_));
    *request.mutable_plan() = ToProto(plan);
  }
  StatusOr<v1::AgreeResponse> response =
      connection_->control()->Agree(request, Seconds(kLongestWaitSeconds));
  Status status = response.ok() ? CatchOutOfMemory([&] { return Adopt(*response); })
                                : link_->Named(response.status());
  if (status.ok()) return OkStatus();
  status = Annotate(status, absl::StrFormat("rank %d: the plan", rank()));
  link_->Fail(status);
  return status;
}

Status Session::Adopt(const v1::AgreeResponse& response) {
  RW_ASSIGN_OR_RETURN(Plan plan, FromProto(response.plan()));
  RW_RETURN_IF_ERROR(Validate(plan, table_.Specs()));
  if (response.from_round() != step_ + 1) {
    return Internal(absl::StrFormat("the coordinator continues with round %d after step %d",
                                    response.from_round(), step_));
  }
  round_ = response.from_round();
  RW_RETURN_IF_ERROR(states_.Begin(checkpoints_->restore()));
  RW_RETURN_IF_ERROR(Install(std::move(plan), 0));
  RW_RETURN_IF_ERROR(LogDataPlane(link_.get()));
  agreed_ = true;
  return plan_.Start();
}

Status Session::Install(Plan plan, uint32_t generation) {
  RW_RETURN_IF_ERROR(plan_.Install(std::move(plan), generation, round_, link_.get()));
  replanner_.Installed(plan_.plan(), step_, link_->place());
  return OkStatus();
}

Status Session::Follow(const v1::Commit& commit) {
  if (commit.review()) {
    RW_RETURN_IF_ERROR(replanner_.AllReduceProfile(commit.probe(), link_.get()));
  }
  return commit.has_plan() ? ChangePlan(commit) : OkStatus();
}

Status Session::ChangePlan(const v1::Commit& commit) {
  StatusOr<Plan> plan = FromProto(commit.plan());
  Status status = plan.status();
  if (status.ok()) status = Validate(*plan, table_.Specs());
  if (status.ok()) {
    connection_->Drain();  // the callbacks of the pipeline that ends
    status = CatchOutOfMemory([&] { return Install(*std::move(plan), commit.generation()); });
    if (status.ok()) status = plan_.Start();
  }
  if (!status.ok()) {
    link_->Fail(Annotate(status, absl::StrFormat("rank %d: the new plan", rank())));
  }
  return status;
}

}  // namespace ringwood
