// Session's half that fixes the table and the plan, and makes what runs it.
#include <algorithm>

#include "absl/strings/str_format.h"
#include "base/log.h"
#include "client/dense_exchange.h"
#include "client/session.h"
#include "client/sparse_exchange.h"
#include "client/state_names.h"
#include "plan/planner.h"
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

std::vector<TensorSpec> Session::Table() const {
  std::vector<TensorSpec> table;
  for (auto tensor = tensors_.rbegin(); tensor != tensors_.rend(); ++tensor) {
    table.push_back((*tensor)->spec);
  }
  return table;
}

StatusOr<Plan> Session::ProposedPlan() const {
  PlanInput input;
  input.tensors = Table();
  input.world = world();
  input.servers = connection_->place().servers;
  if (input.tensors.empty()) return EmptyPlan(options_.planner);
  return MakePlan(options_.planner, input);
}

Status Session::Agree() {
  if (agreed_) return OkStatus();
  RW_RETURN_IF_ERROR(connection_->status());
  v1::AgreeRequest request;
  request.set_epoch(epoch());
  request.set_rank(static_cast<uint32_t>(rank()));
  request.set_incarnation(connection_->incarnation());
  for (const TensorSpec& spec : Table()) *request.add_tensors() = ToProto(spec);
  if (rank() == 0) {
    RW_ASSIGN_OR_RETURN(const Plan plan, ProposedPlan());
    *request.mutable_plan() = ToProto(plan);
  }
  StatusOr<v1::AgreeResponse> response =
      connection_->control()->Agree(request, Seconds(kLongestWaitSeconds));
  Status status = response.ok() ? Adopt(*response) : connection_->Named(response.status());
  if (status.ok()) return OkStatus();
  status = Annotate(status, absl::StrFormat("rank %d: the plan", rank()));
  connection_->Fail(status);
  return status;
}

Status Session::Adopt(const v1::AgreeResponse& response) {
  RW_ASSIGN_OR_RETURN(plan_, FromProto(response.plan()));
  const std::vector<TensorSpec> table = Table();
  if (!table.empty()) RW_RETURN_IF_ERROR(Validate(plan_, table));
  RW_RETURN_IF_ERROR(Scheduler::Check(plan_, table.size()));
  if (response.from_round() != step_ + 1) {
    return Internal(absl::StrFormat("the coordinator goes on with round %d after step %d",
                                    response.from_round(), step_));
  }
  round_ = response.from_round();
  RW_RETURN_IF_ERROR(MakeStates());
  MakePipeline();
  plan_text_ = ToString(plan_, table);
  agreed_ = true;
  return Start();
}

Status Session::MakeStates() {
  states_.resize(tensors_.size());
  for (const Group& group : plan_.groups) {
    if (group.route != "tree") continue;
    for (uint32_t index : group.tensors) {
      const size_t id = TableIndex(static_cast<int>(index));
      const TensorSpec& spec = tensors_[id]->spec;
      SparseOptions options;
      options.k = EntriesOf(group.density, spec.elements);
      options.momentum = static_cast<float>(options_.momentum);
      auto state = std::make_unique<SparseTensor>(spec.elements, options);
      if (restore_) {
        RW_RETURN_IF_ERROR(restore_->ReadIfThere(
            ResidualItem(spec.name), false, std::as_writable_bytes(state->mutable_residual())));
        RW_RETURN_IF_ERROR(restore_->ReadIfThere(
            MomentumItem(spec.name), false, std::as_writable_bytes(state->mutable_momentum())));
      }
      states_[id] = std::move(state);
    }
  }
  return OkStatus();
}

void Session::MakePipeline() {
  Place place = connection_->place();
  place.fanout = static_cast<int>(plan_.fanout);
  std::vector<std::unique_ptr<Exchange>> exchanges;
  for (uint32_t g = 0; g < plan_.groups.size(); ++g) {
    std::vector<const Tensor*> tensors;
    std::vector<SparseTensor*> states;
    for (uint32_t index : plan_.groups[g].tensors) {
      const size_t id = TableIndex(static_cast<int>(index));
      tensors.push_back(tensors_[id].get());
      states.push_back(states_[id].get());
    }
    if (plan_.groups[g].route == "ring") {
      exchanges.push_back(std::make_unique<DenseExchange>(place, g, plan_.groups[g], tensors));
    } else {
      exchanges.push_back(
          std::make_unique<SparseExchange>(place, g, plan_.groups[g], tensors, states));
    }
  }
  auto pipeline = std::make_unique<Pipeline>(connection_->compute(), connection_->net(),
                                             connection_->transport(), plan_, tensors_.size(),
                                             std::move(exchanges));
  pipeline->Begin(round_);
  absl::MutexLock lock(&mutex_);
  pipeline_ = std::move(pipeline);
}

Status Session::Start() {
  // A failure announced before the pipeline stood has passed it by.
  const Status failed = connection_->status();
  absl::MutexLock lock(&mutex_);
  if (!failed.ok()) pipeline_->Fail(failed);
  for (size_t id = 0; id < early_ready_.size(); ++id) {
    if (early_ready_[id]) RW_RETURN_IF_ERROR(pipeline_->Ready(TableIndex(static_cast<int>(id))));
  }
  return OkStatus();
}

}  // namespace ringwood
