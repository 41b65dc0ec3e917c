#include "client/session.h"

#include <limits>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/log.h"
#include "client/plan_proposal.h"

namespace ringwood {
namespace {

constexpr size_t kMaxNoteBytes = 1 << 16;

CheckpointLimits LimitsOf(const SessionOptions& options) {
  return {static_cast<uint64_t>(1e6 * options.checkpoint_arena_mb),
          1e6 * options.checkpoint_rate_mb};
}

// While it lives the coordinator does not blame this rank for making others wait.
class WhileSaving {
 public:
  explicit WhileSaving(Progress* progress) : progress_(progress) { progress_->Saving(true); }
  ~WhileSaving() { progress_->Saving(false); }

 private:
  Progress* const progress_;
};

std::string StartOf(const v1::JoinResponse& joined) {
  const std::string job = absl::StrFormat("job %016x", joined.job());
  if (!joined.holders().empty()) {
    return absl::StrFormat("comes to %s, which runs, after step %d", job, joined.base_step());
  }
  if (!joined.has_checkpoint()) return "new " + job;
  if (joined.logged_steps() == 0) {
    return absl::StrFormat("resumed at step %d of %s", joined.base_step(), job);
  }
  return absl::StrFormat("resumed at step %d of %s: checkpoint of step %d, and %d logged rounds",
                         joined.base_step(), job, joined.base_step() - joined.logged_steps(),
                         joined.logged_steps());
}

}  // namespace

StatusOr<std::unique_ptr<Session>> Session::Open(const SessionOptions& options, Parts parts) {
  RW_ASSIGN_OR_RETURN(auto session, Make(options, std::move(parts)));
  RW_RETURN_IF_ERROR(session->Enter());
  return session;
}

StatusOr<std::unique_ptr<Session>> Session::Make(const SessionOptions& options, Parts parts) {
  RW_RETURN_IF_ERROR(Check(options));
  SetLog(*ParseLogLevel(options.log_level), absl::StrFormat("rank %d", options.rank),
         *ParseLogFormat(options.log_format));
  std::unique_ptr<Session> session(new Session(options));
  session->observers_.Add(session->replanner_.profile());
  session->owned_observers_ = std::move(parts.observers);
  for (const auto& observer : session->owned_observers_) session->observers_.Add(observer.get());
  session->connection_ =
      std::make_unique<Connection>(std::move(parts), LimitsOf(options).arena_bytes);
  session->observers_.Add(session->connection_->progress());
  session->observers_.Add(session->connection_->tally());
  return session;
}

Status Session::Enter() {
  const Status joined = Join();
  // The others hear why: nobody will close a session that was never open.
  if (!joined.ok() && link_ != nullptr) (void)link_->Leave(Message(joined));
  return joined;
}

void Session::Interrupt() {
  // A code by which no epoch recovers, and nothing is tried again.
  connection_->control()->Interrupt(
      Status(StatusCode::kCancelled, absl::StrFormat("rank %d was interrupted", slot())));
  connection_->store()->Cancel();
  if (connection_->updates() != nullptr) connection_->updates()->Cancel();
}

Status Session::Join() {
  const Duration timeout = Seconds(options_.join_timeout_seconds);
  RW_ASSIGN_OR_RETURN(link_, EpochLink::Enter(connection_.get(), options_, timeout, nullptr));
  const v1::JoinResponse& joined = link_->joined();
  elastic_ = link_->elastic();
  logged_ = joined.update_log();
  observers_.Opened({joined.job(), joined.epoch(), options_.rank, link_->place().world,
                     link_->place().servers, options_.host});
  checkpoints_ =
      std::make_unique<Checkpoints>(connection_->store(), link_->place().rank, LimitsOf(options_),
                                    [this](uint64_t step, bool complete, Duration took) {
                                      connection_->tally()->CheckpointEnded(step, complete, took);
                                      updates_.CheckpointEnded(step, complete);
                                    });
  change_ = std::make_unique<EpochChange>(
      EpochChange::Worker{options_, connection_.get(), &plan_, &agreement_, &replanner_,
                          &departures_, &steps_, checkpoints_.get(), &states_, &state_},
      [this](EpochLink* link) { Entered(link); });
  steps_.StartFrom(joined, connection_.get());
  if (joined.has_checkpoint()) {
    checkpoints_->StartFrom({joined.base_epoch(), step()}, joined.logged_steps());
  }
  if (link_->place().rank == 0) Log(LogLevel::kInfo, "job_begun", StartOf(joined));
  Entered(link_.get());
  Status connected = link_->Connect(timeout);
  if (connected.ok()) connected = replanner_.MeasureLink(link_.get());
  if (connected.ok()) state_.Begin(link_.get(), steps_.receiving());
  if (connected.ok() || !link_->elastic()) return connected;
  link_->Fail(link_->Named(connected));
  return Alive();
}

void Session::TakeNumbers(const EpochLink& link) {
  rank_ = link.place().rank;
  world_ = link.place().world;
  epoch_ = link.epoch();
}

void Session::Entered(EpochLink* link) {
  TakeNumbers(*link);
  table_.TakeWorld(world_);
  SetLogPlace(epoch_, step());
  link->Listen([this, elastic = link->elastic()](const Status& failure) {
    plan_.Fail(failure);
    updates_.Cancel();
    checkpoints_->Interrupt(failure);
    if (!elastic && !closed_) observers_.Failed(Message(failure), Now());
  });
}

Status Session::Usable() {
  if (!elastic_) return link_->status();
  absl::MutexLock lock(&mutex_);
  return ended_;
}

Status Session::Alive(bool finishing) {
  RW_RETURN_IF_ERROR(Usable());
  TakeNumbers(*link_);
  const Status status = link_->status();
  if (!status.ok()) return Recovers() ? ChangeEpoch(finishing) : End(status);
  if (!finishing || !steps_.regroup()) return OkStatus();
  (void)link_->collectives()->Meet();  // who still makes a call, or saves, does so in this epoch
  return ChangeEpoch(finishing);
}

Status Session::ChangeEpoch(bool finishing) {
  if (!link_->status().ok()) saves_.Failed();
  checkpoints_->Release();
  lost_ = calls_ > 0 && !finishing;
  why_lost_ = Message(link_->status());
  const Status changed = change_->Run(&link_, {!finishing, calls_});
  return changed.ok() ? changed : End(changed);
}

Status Session::End(const Status& status) {
  if (!elastic_) return status;
  {
    absl::MutexLock lock(&mutex_);
    if (!ended_.ok()) return ended_;
    ended_ = status;
  }
  link_->Fail(status);
  if (!closed_) observers_.Failed(Message(status), Now());
  return status;
}

Session::~Session() {
  if (link_ == nullptr) return;
  closed_ = true;
  // Nothing comes from the listener after it.
  link_->Fail(Aborted("the session was destroyed"));
  checkpoints_.reset();
  connection_->Drain();
  updates_.Drain();
  plan_.End();  // what it has on a device still talks to the loops
  link_.reset();
  connection_.reset();
}

Status Session::Close(const std::string& failure) {
  if (closed_.exchange(true)) return Refused("the session is closed already");
  // A failed checkpoint was logged: it does not make a finished run a failed one.
  const bool in_order = failure.empty() && (departures_.gone() || link_->status().ok());
  if (in_order) {
    const WhileSaving saving(connection_->progress());
    (void)checkpoints_->Wait();
  }
  replanner_.WriteProfile();
  const Status left = link_->Leave(failure);
  // After a failure the coordinator may be dead; an error of leaving does not matter then.
  if (in_order && !left.ok()) {
    Log(LogLevel::kWarning, "leave_failed", "leaving the job: " + Message(left));
  }
  link_->Fail(Aborted("the session is closed"));
  connection_->store()->Cancel();
  if (connection_->updates() != nullptr) connection_->updates()->Cancel();
  return OkStatus();
}

StatusOr<int> Session::Register(const Tensor& tensor) {
  RW_RETURN_IF_ERROR(Usable());
  if (agreement_.agreed()) {
    return Refused(absl::StrFormat(
        "tensor '%s' comes after the plan was agreed: register all before the first step",
        tensor.spec.name));
  }
  RW_RETURN_IF_ERROR(table_.Check(tensor));
  return plan_.Register(tensor);
}

Status Session::Rebind(int id, void* data) {
  RW_RETURN_IF_ERROR(table_.CheckId(id));
  if (data == nullptr) return Invalid("tensor '" + table_.name(id) + "' moved to NULL");
  return plan_.Rebind(id, data);
}

Status Session::Agree() {
  while (!agreement_.agreed()) {
    checkpoints_->Release();
    RW_RETURN_IF_ERROR(Alive());
    const Status agreed =
        agreement_.Agree(steps_.held_step(), steps_.weight(), checkpoints_->restore(), link_.get());
    if (!agreed.ok() && link_->status().ok()) return agreed;
    if (!agreed.ok() && !Recovers()) return End(agreed);
  }
  return OkStatus();
}

void Session::Loaded() {
  connection_->progress()->Loaded(step() + 1);
  connection_->tally()->Loaded(step() + 1, Now());
}

Status Session::BeginStep(double weight, uint32_t pass) {
  RW_RETURN_IF_ERROR(Alive());
  RW_RETURN_IF_ERROR(CheckReplayed());
  RW_RETURN_IF_ERROR(CheckRange("weight", weight));
  // Gradients are multiplied by it as a float, which has fewer bits of it, or none.
  if (constexpr float kLeast = std::numeric_limits<float>::min(); weight > 0 && weight < kLeast) {
    return Invalid(absl::StrFormat(
        "weight = %g is not a number of samples that a float holds: 0, or %g and more", weight,
        kLeast));
  }
  RW_RETURN_IF_ERROR(Agree());
  RW_RETURN_IF_ERROR(steps_.Begin(weight, pass));
  Loaded();
  return OkStatus();
}

Status Session::Ready(int id) {
  RW_RETURN_IF_ERROR(Usable());  // before the plan's lock, which the link's listener takes
  RW_RETURN_IF_ERROR(CheckReplayed());
  return plan_.Ready(id);
}

// Until the round is applied, in this epoch or a later one, or the job is over.
StatusOr<StepResult> Session::FinishStep() {
  for (;;) {
    RW_RETURN_IF_ERROR(Alive(true));
    RW_RETURN_IF_ERROR(CheckReplayed());
    if (const std::optional<StepResult> settled = steps_.TakeSettled()) {
      CallsOver();
      state_.Stepped();
      if (departures_.gone()) Left();
      return *settled;
    }
    RW_RETURN_IF_ERROR(Agree());
    RW_RETURN_IF_ERROR(state_.Serve(link_.get()));
    checkpoints_->Release();
    StatusOr<StepResult> result = steps_.Finish(link_.get());
    if (result.ok() && steps_.receiving()) {
      result->received = true;
      if (const Status taken = TakeState(); !taken.ok()) result = taken;
    }
    if (result.ok()) {
      SetLogPlace(epoch_, result->step);
      CallsOver();
      state_.Stepped();
      if (steps_.some_leave()) EndStepOfLeavers();
      return result;
    }
    if (link_->status().ok()) return result;  // refused, nothing ran
    if (!Recovers()) return End(result.status());
  }
}

Status Session::CheckMayLeave() {
  RW_RETURN_IF_ERROR(Usable());
  if (elastic_) return OkStatus();
  return Refused("a rank cannot leave before the others: the job is not elastic (--elastic)");
}

Status Session::LeaveAfterStep() {
  RW_RETURN_IF_ERROR(CheckMayLeave());
  steps_.Leave();
  return OkStatus();
}

// The step is committed: what fails is said by the next call.
void Session::EndStepOfLeavers() {
  Status changed;
  if (!departures_.gone()) changed = ChangeEpoch();
  if (departures_.gone()) return Left();
  if (changed.ok() || !departures_.leaves()) return;
  Log(LogLevel::kWarning,
      absl::StrFormat("rank %d leaves, and what it owes may not have come to the others: %s",
                      link_->slot(), Message(changed)));
}

void Session::Left() {
  absl::MutexLock lock(&mutex_);
  ended_ = Refused(absl::StrFormat("rank %d has left the job after step %d: close the session",
                                   link_->slot(), step()));
}

// A rank that has heard of the commit and not got the state has nothing to apply it to: it starts
// over with the next epoch.
Status Session::TakeState() {
  const Status taken = state_.Take();
  if (taken.ok()) {
    steps_.Received();
    Log(LogLevel::kInfo, "state_received",
        absl::StrFormat("the state of step %d has come from other ranks: this "
                        "rank takes part from step %d on",
                        step() - 1, step() + 1));
    return taken;
  }
  link_->Fail(steps_.some_leave() ? taken : link_->Named(taken));
  return Annotate(taken, absl::StrFormat("rank %d: the state of the job", link_->slot()));
}

// Once it is known what a checkpoint costs.
void Session::SayInterval() {
  if (rank() != 0 || std::exchange(said_interval_, true)) return;
  Log(LogLevel::kInfo, "checkpoint_interval",
      absl::StrFormat("checkpoints that are left to the session come every %.0f s: at most %.0f %% "
                      "of the time stops for them",
                      ToSeconds(saves_.Interval(Now())), 100 * SaveClock::kBudget));
}

Status Session::CheckReplayed() const {
  if (replays() == 0) return OkStatus();
  return Refused(absl::StrFormat(
      "rank %d: the update log has %d rounds after step %d, the state that this rank has: replay "
      "them first (ringwood_replay), or start without --update-log, which gives them up",
      slot(), replays(), step()));
}

StatusOr<RoundFacts> Session::Replay() {
  RW_RETURN_IF_ERROR(Alive());
  RW_RETURN_IF_ERROR(CheckNotAway());
  if (replays() == 0) return NotFound("there is no logged round to replay");
  if (connection_->updates() == nullptr) return Internal("there is no way to the update log");
  // A long replay is progress: the start is over.
  connection_->progress()->TookPart();
  if (replay_.empty()) {
    RW_RETURN_IF_ERROR(replay_.Fetch(connection_->updates(), step(), step() + replays()));
  }
  RW_ASSIGN_OR_RETURN(const RoundFacts round, replay_.Next(table_.ById()));
  steps_.Replayed();
  return round;
}

Status Session::Note(std::string note) {
  RW_RETURN_IF_ERROR(Usable());
  if (note.size() > kMaxNoteBytes) {
    return Invalid(absl::StrFormat("a note of %d bytes: at most %d are kept with a round",
                                   note.size(), kMaxNoteBytes));
  }
  updates_.Note(std::move(note));
  return OkStatus();
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

Status Session::Checkpoint(const std::vector<Item>& items) {
  RW_RETURN_IF_ERROR(CheckReplayed());
  if (receiving()) return Refused(NoStateYet("save"));
  for (;;) {
    RW_RETURN_IF_ERROR(Alive());
    RW_RETURN_IF_ERROR(CheckNotAway());
    connection_->progress()->SaveBegun();
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
    stripe.store = link_->StoreOf(stripe.rank);
    stripe.grace = link_->grace();
    const TimePoint begun = Now();
    saves_.Completed(checkpoints_->took());
    Status saved;
    {
      const WhileSaving saving(connection_->progress());
      saved = checkpoints_->Save(stripe, items, states_, plan);
    }
    saves_.Stopped(begun, Now() - begun);
    SayInterval();
    if (saved.ok()) updates_.CheckpointBegun(stripe.step);
    if (saved.ok() || !Recovers()) return saved;
  }
}

// How a checkpoint ends is decided once, in the store, and is what all ranks are told: also where
// its epoch ends under it.
Status Session::CheckpointWait() {
  for (;;) {
    {
      const WhileSaving saving(connection_->progress());
      if (const std::optional<Status> ended = checkpoints_->Wait()) return *ended;
    }
    if (!Recovers()) return End(link_->status());
    RW_RETURN_IF_ERROR(ChangeEpoch());
    RW_RETURN_IF_ERROR(CheckNotAway());
  }
}

std::string Session::NoStateYet(const char* what) const {
  return absl::StrFormat(
      "rank %d comes to a job that runs: it has nothing to %s before its first "
      "finish_step, with which the state of the others comes",
      link_->slot(), what);
}

// After a change of epoch, in which the others may have gone on without this rank.
Status Session::CheckNotAway() const {
  if (!receiving()) return OkStatus();
  return Aborted(absl::StrFormat(
      "this rank was away while the others went on (%s): their state comes with its next "
      "finish_step, and until then (ringwood_receiving) it has no calls to make",
      why_lost_));
}

}  // namespace ringwood
