// Session's half that fixes the table and agrees on the plan.
#include "absl/strings/str_format.h"
#include "client/session.h"
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
  input.ring_codecs = {RingCodec(options_.wire)};
  RW_ASSIGN_OR_RETURN(const Codec codec, ParseCodec(options_.sparse_codec));
  input.tree_codec = options_.sparse_codec;
  input.entry_bytes = codec.EntryBytes();
  input.merge = options_.sparse_merge;
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
  RW_RETURN_IF_ERROR(MakePipeline());
  plan_text_ = ToString(plan_, table);
  agreed_ = true;
  return Start();
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
