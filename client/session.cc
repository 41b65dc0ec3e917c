#include "client/session.h"

#include <exception>

#include "absl/strings/str_format.h"
#include "base/log.h"
#include "base/out_of_memory.h"
#include "client/plan_proposal.h"
#include "plan/strategy/planner.h"
#include "plan/wire.h"

namespace ringwood {
namespace {

std::string StartOf(const v1::JoinResponse& joined) {
  const std::string job = absl::StrFormat("job %016x", joined.job());
  if (!joined.has_checkpoint()) return "new " + job;
  return absl::StrFormat("resumed at step %d of %s", joined.base_step(), job);
}

}  // namespace

StatusOr<std::unique_ptr<Session>> Session::Open(const SessionOptions& options, Parts parts) {
  RW_RETURN_IF_ERROR(Check(options));
  SetLog(*ParseLogLevel(options.log_level), absl::StrFormat("rank %d", options.rank));
  std::unique_ptr<Session> session(new Session(options));
  session->observers_.Add(session->replanner_.profile());
  session->guests_ = std::move(parts.observers);
  for (const auto& guest : session->guests_) session->observers_.Add(guest.get());
  session->connection_ = std::make_unique<Connection>(std::move(parts));
  RW_ASSIGN_OR_RETURN(session->link_, EpochLink::Join(session->connection_.get(), options));
  EpochLink* const link = session->link_.get();
  session->observers_.Opened({link->joined().job(), link->epoch(), options.rank, options.world,
                              link->place().servers, options.host});
  session->checkpoints_ =
      std::make_unique<Checkpoints>(session->connection_->store(), options.rank);
  session->step_ = link->joined().base_step();
  if (link->joined().has_checkpoint()) {
    session->checkpoints_->StartFrom({link->joined().base_epoch(), session->step_});
  }
  if (options.rank == 0) Log(LogLevel::kInfo, StartOf(link->joined()));
  link->Listen([raw = session.get()](const Status& failure) {
    raw->plan_.Fail(failure);
    raw->checkpoints_->Interrupt(failure);
    if (!raw->closed_) raw->observers_.Failed(Message(failure), Now());
  });
  return session;
}

Session::~Session() {
  if (link_ == nullptr) return;
  closed_ = true;
  // Nothing comes from the listener after it.
  link_->Fail(Aborted("the session was destroyed"));
  checkpoints_.reset();
  connection_->Drain();
  plan_.End();  // what it has on a device still talks to the loops
  link_.reset();
  connection_.reset();
}

Status Session::Close(const std::string& failure) {
  if (closed_.exchange(true)) return Refused("the session is closed already");
  // A failed checkpoint was logged: it does not make a finished run a failed one.
  const bool in_order = failure.empty() && link_->status().ok();
  if (in_order) (void)CheckpointWait();
  replanner_.WriteProfile();
  const Status left = link_->Leave(failure);
  // After a failure the coordinator may be dead; an error of leaving does not matter then.
  if (in_order && !left.ok()) Log(LogLevel::kWarning, "leaving the job: " + Message(left));
  link_->Fail(Aborted("the session is closed"));
  connection_->store()->Cancel();
  return OkStatus();
}

StatusOr<int> Session::Register(const Tensor& tensor) {
  RW_RETURN_IF_ERROR(link_->status());
  if (agreed_) {
    return Refused(absl::StrFormat(
        "tensor '%s' comes after the plan was agreed: register all before the first step",
        tensor.spec.name));
  }
  RW_RETURN_IF_ERROR(table_.Check(tensor));
  return plan_.Register(tensor);
}

Status Session::Rebind(int id, float* data) {
  RW_RETURN_IF_ERROR(table_.CheckId(id));
  if (data == nullptr) return Invalid("tensor '" + table_.name(id) + "' moved to NULL");
  return plan_.Rebind(id, data);
}

Status Session::BeginStep(double weight) {
  RW_RETURN_IF_ERROR(link_->status());
  RW_RETURN_IF_ERROR(CheckRange("weight", weight));
  RW_RETURN_IF_ERROR(Agree());
  RW_RETURN_IF_ERROR(plan_.pipeline()->SetWeight(static_cast<float>(weight)));
  weight_ = weight;
  begun_ = true;
  return OkStatus();
}

Status Session::Ready(int id) {
  RW_RETURN_IF_ERROR(link_->status());  // before the plan's lock, which its listener takes
  RW_RETURN_IF_ERROR(plan_.Ready(id));
  connection_->control()->Advance();
  return OkStatus();
}

Status Session::CheckComplete() {
  const std::vector<TableIndex> missing = plan_.pipeline()->Missing();
  if (missing.empty()) {
    return !table_.empty() || begun_ ? OkStatus() : Refused("finish_step without a step");
  }
  constexpr size_t kNamed = 8;
  std::string names;
  for (size_t i = 0; i < missing.size() && i < kNamed; ++i) {
    names += (i == 0 ? "" : ", ") + table_.name(table_.IdOf(missing[i]));
  }
  return Refused(absl::StrFormat(
      "rank %d: step %d: %d of %d gradients are not ready (%s%s): call ready for each, or backward "
      "before finish_step",
      rank(), step_ + 1, missing.size(), table_.size(), names,
      missing.size() > kNamed ? ", ..." : ""));
}

StatusOr<v1::Commit> Session::Vote(const RoundSummary& summary) {
  v1::VoteRequest vote;
  vote.set_epoch(epoch());
  vote.set_round(round_);
  vote.set_rank(static_cast<uint32_t>(rank()));
  vote.set_incarnation(connection_->incarnation());
  vote.set_digest(summary.digest);
  vote.set_weight(weight_);
  vote.set_non_finite(summary.non_finite);
  replanner_.Ask(round_, &vote);
  RW_ASSIGN_OR_RETURN(v1::Commit commit,
                      connection_->control()->Vote(vote, Seconds(kLongestWaitSeconds)));
  if (commit.epoch() != epoch() || commit.round() != round_) {
    return Aborted(
        absl::StrFormat("a commit of epoch %d round %d answers a vote of epoch %d round %d",
                        commit.epoch(), commit.round(), epoch(), round_));
  }
  return commit;
}

StatusOr<StepResult> Session::FinishStep() {
  RW_RETURN_IF_ERROR(link_->status());
  RW_RETURN_IF_ERROR(Agree());
  RW_RETURN_IF_ERROR(CheckComplete());
  Pipeline* const pipeline = plan_.pipeline();
  observers_.WaitBegun(round_, Now());
  const Status exchanged = pipeline->Wait(Seconds(kLongestWaitSeconds));
  if (!exchanged.ok()) return FailStep(exchanged);
  const RoundSummary summary = pipeline->Summary();
  observers_.Voted(round_, summary.digest, Now());
  const StatusOr<v1::Commit> commit = Vote(summary);
  if (!commit.ok()) return FailStep(commit.status());
  RW_RETURN_IF_ERROR(Apply(pipeline, *commit));
  step_ = round_++;
  StepResult result;
  result.step = step_;
  result.skipped = commit->skipped();
  result.total_weight = commit->total_weight();
  result.dense_bytes = summary.dense_bytes;
  result.sparse_bytes = summary.sparse_bytes;
  result.dense_equivalent_bytes = table_.elements() * sizeof(float) * 2 * (world() - 1) / world();
  weight_ = 1;
  begun_ = false;
  connection_->control()->Report(step_);
  // This step is committed; an error from here on ends the session and is returned by the next
  // call.
  (void)Follow(*commit);
  if (!commit->has_plan()) pipeline->Begin(round_);  // a new plan has a pipeline of its own
  return result;
}

// What is thrown in the middle leaves some gradients applied and some not: the session is over, and
// no second finish_step applies the step again.
Status Session::Apply(Pipeline* pipeline, const v1::Commit& commit) {
  Status status;
  try {
    status = CatchOutOfMemory([&] {
      observers_.Committed(round_, commit.skipped(), Now());
      if (commit.skipped()) {
        pipeline->Abort();
      } else {
        pipeline->Apply(commit.total_weight());
        states_.Committed();
      }
      observers_.Applied(round_, Now());
      return OkStatus();
    });
  } catch (const std::exception& thrown) {
    status = Internal(thrown.what());
  }
  if (status.ok()) return status;
  status =
      Annotate(status, absl::StrFormat("rank %d: step %d was committed and is applied in part: "
                                       "restart from the checkpoint",
                                       rank(), round_));
  link_->Fail(status);
  connection_->Drain();
  return status;
}

Status Session::FailStep(const Status& status) {
  const Status named =
      Annotate(link_->Named(status), absl::StrFormat("rank %d: step %d", rank(), step_ + 1));
  link_->Fail(named);
  connection_->Drain();
  plan_.pipeline()->Abort();
  return named;
}

Status Session::Residual(int id, std::span<float> out) const {
  RW_RETURN_IF_ERROR(table_.CheckId(id));
  const TensorSpec& spec = table_[id].spec;
  if (out.size() != spec.elements) {
    return Invalid(absl::StrFormat("tensor '%s' has %d elements, the residual's memory %d",
                                   spec.name, spec.elements, out.size()));
  }
  return states_.ReadResidual(id, out);
}

Status Session::Checkpoint(std::vector<Item> items) {
  RW_RETURN_IF_ERROR(link_->status());
  std::string plan;
  if (agreed_ && !table_.empty()) {
    plan = SavedPlanOf(plan_.plan(), table_, link_->place()).SerializeAsString();
  }
  StripeName stripe;
  stripe.epoch = epoch();
  stripe.step = step_;
  stripe.rank = static_cast<uint32_t>(rank());
  stripe.world = static_cast<uint32_t>(world());
  stripe.incarnation = connection_->incarnation();
  return checkpoints_->Save(stripe, std::move(items), states_, plan);
}

// A trainer without steps of ours shows by its collectives that the start is over.
Status Session::Ended(const Status& status) {
  if (status.ok()) connection_->control()->Begun();
  return status;
}

Status Session::AllReduce(std::span<std::byte> data, DataType type, ReduceOp op, bool average) {
  if (average) RW_RETURN_IF_ERROR(Divide({}, type, 1));  // refused before anything is sent
  RW_RETURN_IF_ERROR(Ended(link_->collectives()->AllReduce(data, type, op)));
  return average ? Divide(data, type, world()) : OkStatus();
}

Status Session::Broadcast(std::span<std::byte> data, int root) {
  if (root < 0 || root >= world()) {
    return Invalid(absl::StrFormat("broadcast from rank %d in a world of %d", root, world()));
  }
  return Ended(link_->collectives()->Broadcast(data, root));
}

Status Session::ReduceScatter(std::span<std::byte> data, DataType type, ReduceOp op, bool average) {
  if (average) RW_RETURN_IF_ERROR(Divide({}, type, 1));  // refused before anything is sent
  RW_RETURN_IF_ERROR(Ended(link_->collectives()->ReduceScatter(data, type, op)));
  if (!average) return OkStatus();
  const Range share = CutEvenly(data.size() / SizeOf(type), world())[rank()];
  return Divide(data.subspan(share.begin * SizeOf(type), share.count * SizeOf(type)), type,
                world());
}

Status Session::AllGather(std::span<std::byte> data, DataType type) {
  return Ended(link_->collectives()->AllGather(data, type));
}

}  // namespace ringwood
