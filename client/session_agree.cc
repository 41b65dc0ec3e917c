// Session's half that fixes the table and agrees on the plan.
#include "absl/strings/str_format.h"
#include "base/log.h"
#include "base/out_of_memory.h"
#include "client/checkpoint/state_names.h"
#include "client/connection/hop_probe.h"
#include "client/replan/plan_file.h"
#include "client/session.h"
#include "plan/strategy/planner.h"
#include "plan/warm_up.h"
#include "plan/wire.h"

namespace ringwood {
namespace {

// For a session without tensors: its steps only vote.
Plan EmptyPlan(const std::string& planner) {
  Plan plan;
  plan.planner = planner;
  return plan;
}

}  // namespace

PlanInput Session::InputOf(std::vector<TensorSpec> table) const {
  PlanInput input;
  input.tensors = std::move(table);
  input.world = world();
  input.hosts = connection_->place().hosts;
  input.servers = connection_->place().servers;
  input.ring_codecs = {RingCodec(table_.IsOnDevice() ? "fp32" : options_.wire)};
  input.tree_codec = options_.sparse_codec;
  input.entry_bytes = ParseCodec(options_.sparse_codec)->EntryBytes();  // Check has read it before
  input.merge = options_.sparse_merge;
  input.keep = options_.sparse_keep;
  return input;
}

// The frozen plan, else the checkpoint's, else a new one from the fixed profile.
StatusOr<Plan> Session::ProposedPlan() {
  std::vector<TensorSpec> table = table_.Specs();
  if (table.empty()) return EmptyPlan(options_.planner);
  if (!options_.freeze_plan.empty()) {
    RW_ASSIGN_OR_RETURN(const v1::SavedPlan saved, ReadPlanFile(options_.freeze_plan));
    StatusOr<Plan> plan = PlanFor(table, saved);
    if (!plan.ok()) return Annotate(plan.status(), options_.freeze_plan);
    if (!IsOfThisWorld(saved)) {  // right results, but other costs than it was made for
      Log(LogLevel::kWarning,
          absl::StrFormat("%s was made for %d workers and %d servers, here are %d and %d: "
                          "`ringwood plan` makes one for these",
                          options_.freeze_plan, saved.world(), saved.servers(), world(),
                          connection_->place().servers));
    }
    return plan;
  }
  RW_ASSIGN_OR_RETURN(std::optional<Plan> restored, RestoredPlan());
  if (restored) return *std::move(restored);
  return MakePlan(options_.planner, InputOf(std::move(table)));
}

bool Session::IsOfThisWorld(const v1::SavedPlan& saved) const {
  return saved.world() == static_cast<uint32_t>(world()) &&
         saved.servers() == static_cast<uint32_t>(connection_->place().servers);
}

// Nothing: there is none, or it was made for another job than this one.
StatusOr<std::optional<Plan>> Session::RestoredPlan() {
  Restore* const restore = checkpoints_->restore();
  if (restore == nullptr) return std::nullopt;
  const StatusOr<uint64_t> bytes = restore->Bytes(kPlanItem, true);
  if (bytes.status().code() == StatusCode::kNotFound) return std::nullopt;
  RW_RETURN_IF_ERROR(bytes.status());
  std::string text(*bytes, '\0');
  RW_RETURN_IF_ERROR(restore->Read(kPlanItem, true, std::as_writable_bytes(std::span(text))));
  v1::SavedPlan saved;
  if (!saved.ParseFromString(text)) return Corrupt("the checkpoint's plan cannot be read");
  Status fits;
  if (!IsOfThisWorld(saved)) {
    fits = Invalid(absl::StrFormat("it was made for %d workers and %d servers", saved.world(),
                                   saved.servers()));
  } else if (saved.plan().planner() != options_.planner) {
    fits = Invalid(absl::StrFormat("it was made by the planner %s", saved.plan().planner()));
  } else {
    StatusOr<Plan> plan = PlanFor(table_.Specs(), saved);
    if (plan.ok()) return *std::move(plan);
    fits = plan.status();
  }
  Log(LogLevel::kInfo, "the checkpoint's plan is not used: " + Message(fits));
  return std::nullopt;
}

Status Session::Agree() {
  if (agreed_) return OkStatus();
  RW_RETURN_IF_ERROR(connection_->status());
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
    RW_ASSIGN_OR_RETURN(Plan plan, ProposedPlan());
    if (options_.freeze_plan.empty()) {
      plan = AtStage(std::move(plan), table_.Specs(), StageAfter(step_));
    }
    *request.mutable_plan() = ToProto(plan);
  }
  StatusOr<v1::AgreeResponse> response =
      connection_->control()->Agree(request, Seconds(kLongestWaitSeconds));
  Status status = response.ok() ? CatchOutOfMemory([&] { return Adopt(*response); })
                                : connection_->Named(response.status());
  if (status.ok()) return OkStatus();
  status = Annotate(status, absl::StrFormat("rank %d: the plan", rank()));
  connection_->Fail(status);
  return status;
}

Status Session::Adopt(const v1::AgreeResponse& response) {
  RW_ASSIGN_OR_RETURN(Plan plan, FromProto(response.plan()));
  RW_RETURN_IF_ERROR(Validate(plan, table_.Specs()));
  if (response.from_round() != step_ + 1) {
    return Internal(absl::StrFormat("the coordinator goes on with round %d after step %d",
                                    response.from_round(), step_));
  }
  round_ = response.from_round();
  RW_RETURN_IF_ERROR(states_.Begin(checkpoints_->restore()));
  RW_RETURN_IF_ERROR(Install(std::move(plan), 0));
  RW_RETURN_IF_ERROR(LogDataPlane(collectives_.get(), *connection_));
  agreed_ = true;
  BeginAdapting();
  return plan_.Start();
}

Status Session::Install(Plan plan, uint32_t generation) {
  RW_RETURN_IF_ERROR(
      plan_.Install(std::move(plan), generation, round_, connection_.get(), collectives_.get()));
  if (adapter_ != nullptr) adapter_->Adopted(plan_.plan(), StageAfter(step_));
  SavePlan();
  return OkStatus();
}

// Tensors with momentum correction keep their route: their velocity could not go with them, and the
// trainer's optimizer would have to take over.
void Session::BeginAdapting() {
  if (rank() != 0 || !options_.adapt || world() == 1 || table_.empty()) return;
  std::vector<TensorSpec> table = table_.Specs();
  for (const Group& group : plan_.plan().groups) {
    for (uint32_t index : group.tensors) {
      if (table_.momentum(table_.IdOf({index})) == 0) continue;
      table[index].route = group.route == "tree" ? "sparse" : "dense";
    }
  }
  adapter_ = std::make_unique<Adapter>(
      PlanQuestion{options_.planner, InputOf(std::move(table)), Plan(), 0, AffineFit()});
  adapter_->Adopted(plan_.plan(), StageAfter(step_));
}

}  // namespace ringwood
