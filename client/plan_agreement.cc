#include "client/plan_agreement.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "base/out_of_memory.h"
#include "client/plan_proposal.h"
#include "plan/wire.h"

namespace ringwood {

Status PlanAgreement::Agree(uint64_t committed, double weight, Restore* restore, EpochLink* link) {
  const int rank = link->place().rank;
  v1::AgreeRequest request;
  request.set_epoch(link->epoch());
  request.set_rank(static_cast<uint32_t>(rank));
  request.set_incarnation(link->connection()->incarnation());
  table_.Describe(&request);
  for (const auto& [name, value] : Agreed(options_)) {
    v1::Setting* const setting = request.add_settings();
    setting->set_name(name);
    setting->set_value(value);
  }
  v1::Setting* const memory = request.add_settings();
  memory->set_name("memory of the tensors");
  memory->set_value(table_.IsOnDevice() ? "device" : "host");
  if (const std::string turns = table_.DescribeTurns(); !turns.empty()) {
    v1::Setting* const taken = request.add_settings();
    taken->set_name("turns and decays of the tensors");
    taken->set_value(turns);
  }
  if (rank == 0) {
    RW_ASSIGN_OR_RETURN(const Plan plan,
                        ProposePlan(options_, link->place(), replanner_->network(), table_, restore,
                                    replanner_->before(), committed));
    *request.mutable_plan() = ToProto(plan);
  }
  const StatusOr<v1::AgreeResponse> response =
      link->connection()->control()->Agree(request, Seconds(kLongestWaitSeconds));
  Status status = response.ok() ? OkStatus() : link->Named(response.status());
  if (status.ok()) {
    status = CatchOutOfMemory([&] { return Adopt(*response, committed, weight, restore, link); });
  }
  if (status.ok()) return OkStatus();
  status = Annotate(status, absl::StrFormat("rank %d: the plan", link->slot()));
  link->Fail(status);
  return status;
}

Status PlanAgreement::Adopt(const v1::AgreeResponse& response, uint64_t committed, double weight,
                            Restore* restore, EpochLink* link) {
  RW_ASSIGN_OR_RETURN(Plan plan, FromProto(response.plan()));
  RW_RETURN_IF_ERROR(Validate(plan, table_.Specs()));
  if (response.from_round() != committed + 1) {
    return Internal(absl::StrFormat("the coordinator continues with round %d after step %d",
                                    response.from_round(), committed));
  }
  RW_RETURN_IF_ERROR(states_->Begin(restore, link->place().rank, link->place().world));
  if (link->elastic()) states_->ForgetReaches();  // other ranks may begin without the checkpoint
  replanner_->TakeDelay(link);
  RW_RETURN_IF_ERROR(Install(std::move(plan), 0, committed, weight, link));
  if (link->elastic()) RW_RETURN_IF_ERROR(departures_->Late(link));
  if (departures_->gone()) return OkStatus();
  if (!departures_->left().empty()) return Aborted("ranks have left in order as the epoch began");
  agreed_ = true;
  return plan_->Start();
}

Status PlanAgreement::Install(Plan plan, uint32_t generation, uint64_t committed, double weight,
                              EpochLink* link) {
  RW_RETURN_IF_ERROR(plan_->Install(std::move(plan), generation, committed + 1, weight, link));
  replanner_->Installed(plan_->plan(), generation, committed, link->place());
  return OkStatus();
}

Status PlanAgreement::Change(const v1::Commit& commit, EpochLink* link) {
  StatusOr<Plan> plan = FromProto(commit.plan());
  Status status = plan.status();
  if (status.ok()) status = Validate(*plan, table_.Specs());
  if (status.ok()) {
    link->connection()->Drain();  // the callbacks of the pipeline that ends
    status = CatchOutOfMemory(
        [&] { return Install(*std::move(plan), commit.generation(), commit.round(), 1, link); });
    if (status.ok()) status = plan_->Start();
  }
  if (!status.ok()) {
    link->Fail(Annotate(status, absl::StrFormat("rank %d: the new plan", link->slot())));
  }
  return status;
}

}  // namespace ringwood
