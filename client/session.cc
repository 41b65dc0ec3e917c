#include "client/session.h"

#include "absl/strings/str_format.h"
#include "base/log.h"
#include "client/plan_proposal.h"

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
  session->owned_observers_ = std::move(parts.observers);
  for (const auto& observer : session->owned_observers_) session->observers_.Add(observer.get());
  session->connection_ = std::make_unique<Connection>(std::move(parts));
  RW_ASSIGN_OR_RETURN(session->link_, EpochLink::Join(session->connection_.get(), options));
  EpochLink* const link = session->link_.get();
  session->observers_.Opened({link->joined().job(), link->epoch(), options.rank, options.world,
                              link->place().servers, options.host});
  session->checkpoints_ =
      std::make_unique<Checkpoints>(session->connection_->store(), options.rank);
  session->steps_.StartFrom(link->joined().base_step());
  if (link->joined().has_checkpoint()) {
    session->checkpoints_->StartFrom({link->joined().base_epoch(), session->step()});
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
  if (agreement_.agreed()) {
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

Status Session::Agree() {
  if (agreement_.agreed()) return OkStatus();
  RW_RETURN_IF_ERROR(link_->status());
  return agreement_.Agree(step(), checkpoints_->restore(), link_.get());
}

Status Session::BeginStep(double weight) {
  RW_RETURN_IF_ERROR(link_->status());
  RW_RETURN_IF_ERROR(CheckRange("weight", weight));
  RW_RETURN_IF_ERROR(Agree());
  return steps_.Begin(weight);
}

Status Session::Ready(int id) {
  RW_RETURN_IF_ERROR(link_->status());  // before the plan's lock, which its listener takes
  RW_RETURN_IF_ERROR(plan_.Ready(id));
  connection_->control()->Advance();
  return OkStatus();
}

StatusOr<StepResult> Session::FinishStep() {
  RW_RETURN_IF_ERROR(link_->status());
  RW_RETURN_IF_ERROR(Agree());
  return steps_.Finish(link_.get());
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
  if (agreement_.agreed() && !table_.empty()) {
    plan = SavedPlanOf(plan_.plan(), table_, link_->place()).SerializeAsString();
  }
  StripeName stripe;
  stripe.epoch = epoch();
  stripe.step = step();
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
