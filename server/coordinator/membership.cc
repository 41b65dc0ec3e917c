#include "server/coordinator/membership.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "base/text.h"
#include "base/units.h"

namespace ringwood {
namespace {

constexpr size_t kMostWhy = 400;  // bytes of what a member says

std::string WhyItJoins(const Roster& roster, uint32_t node, const v1::JoinRequest& request) {
  const std::string who = roster.Label(node);
  if (request.held().silent().empty()) {
    const std::string why = Printable(request.held().why(), kMostWhy);
    return who + " joined again" + (why.empty() ? "" : ": " + why);
  }
  const uint32_t silent = request.held().silent(0);
  if (silent == node) return who + " hears nobody of another host on the data plane";
  return who + " does not hear " + roster.Label(silent) +
         (request.held().silent_size() > 1 ? ", nor others of its host," : "") +
         " on the data plane";
}

}  // namespace

Membership::Membership(MembershipOptions options, v1::EpochRecord recovered)
    : options_(std::move(options)),
      recovered_(recovered),
      gathering_(options_, std::move(recovered)) {
  if (options_.reattach_grace_seconds > 0 && recovered_.members_size() > 0) {
    phase_ = Phase::kReattaching;
  }
}

Actions Membership::On(const Event& event, TimePoint now) {
  now_ = now;
  if (phase_ == Phase::kReattaching && !reattachment_) {
    reattachment_.emplace(options_, std::exchange(recovered_, {}), now);
  }
  Forgive(now);
  std::visit([this](const auto& happened) { Handle(happened); }, event);
  return out_.Take();
}

// While this process itself stood still (stopped, swapped out), no member could reach it: that time
// does not count as silence.
void Membership::Forgive(TimePoint now) {
  const Duration gap = now - last_event_;
  last_event_ = now;
  if (gap > 2 * Seconds(options_.heartbeat_seconds) && epoch_) epoch_->Forgive(gap);
}

std::optional<uint32_t> Membership::SlotOf(uint64_t epoch, uint32_t node) const {
  if (!epoch_ || epoch != this->epoch() || node >= epoch_->roster().world()) return std::nullopt;
  return epoch_->roster().member(node).rank();
}

bool Membership::Attends(StreamId stream) const { return HasMembers() && epoch_->Attends(stream); }

Status Membership::Check(uint64_t epoch, uint32_t node, uint64_t incarnation) const {
  if (phase_ == Phase::kStopped) return stopped_;
  if (phase_ == Phase::kReattaching && epoch == this->epoch()) {
    return Unavailable(
        absl::StrFormat("the coordinator was started again: %s", reattachment_->Progress()));
  }
  if (epoch != this->epoch() || !HasMembers()) {
    return Aborted(
        absl::StrFormat("epoch %d is over (the newest is %d): join again", epoch, this->epoch()));
  }
  return epoch_->Check(node, incarnation);
}

bool Membership::Recovers() const {
  return phase_ != Phase::kRunning && phase_ != Phase::kStopped && epoch_ && epoch_->Recovers();
}

uint64_t Membership::ended() const {
  if (phase_ == Phase::kStopped) return 0;  // they may come back to a server that follows
  if (epoch_) {
    const bool goes_on = epoch_->state() == Epoch::State::kRunning || epoch_->Recovers();
    return goes_on ? 0 : epoch_->record().epoch();
  }
  const bool left = reattachment_ && reattachment_->over() && reattachment_->AllLeft();
  return left ? reattachment_->record().epoch() : 0;
}

std::vector<Awaited> Membership::AwaitedNow() const {
  if (reattachment_ && !epoch_) return reattachment_->AwaitedBy(now_);
  return Recovers() ? epoch_->AwaitedBy(now_) : std::vector<Awaited>();
}

void Membership::Rest() { phase_ = Recovers() ? Phase::kFailed : Phase::kWaiting; }

void Membership::Handle(const event::Join& event) {
  if (phase_ == Phase::kStopped) return out_.Reply(event.call, StoppedForJoins());
  if (IsOutdated(event.request)) {
    return out_.Reply(event.call, Aborted("this join is older than the caller's last vote"));
  }
  if (HasEndedWithout(event.request)) return out_.Reply(event.call, EndedWithout());
  AfterJoinOfMember(event.request);
  if (reattachment_) reattachment_->Join(event.request);
  AfterReattachmentEvent();
  gathering_.Join(event, now_, &out_);
  OpenIfComplete();
}

Status Membership::StoppedForJoins() const {
  return options_.has_successor ? Aborted(Message(stopped_) + ": join again") : stopped_;
}

// A call that was given up may arrive after the process has joined by another one. What it says
// that the process has is not true any more: a round of the epoch is committed, so all its workers
// were active in it.
bool Membership::IsOutdated(const v1::JoinRequest& request) const {
  if (!options_.elastic || epoch_ == nullptr || !HasMembers()) return false;
  const v1::EpochRecord& record = epoch_->record();
  return request.role() == v1::ROLE_WORKER && request.held().epoch() < record.epoch() &&
         epoch_->committed().round > record.base_step() &&
         epoch_->roster().Find(request.role(), request.rank(), request.incarnation());
}

// Nobody is left who has the state of its last step, and nobody needs it: a restart from a
// checkpoint would train the last steps again.
Status Membership::EndedWithout() const {
  if (!options_.elastic || epoch_ == nullptr || !epoch_->finished()) return OkStatus();
  return JobEnded(absl::StrFormat(
      "job %016x ended in order after step %d, while this rank was away from it: nothing is left "
      "to do",
      epoch_->record().job(), epoch_->committed().round));
}

bool Membership::HasEndedWithout(const v1::JoinRequest& request) const {
  return !EndedWithout().ok() && HasPart(request) && request.held().job() == epoch_->record().job();
}

// A member that joins again has ended its part in the epoch, maybe before we heard why.
void Membership::AfterJoinOfMember(const v1::JoinRequest& request) {
  if (!options_.elastic || !HasMembers()) return;
  const Roster& roster = epoch_->roster();
  const auto node = roster.Find(request.role(), request.rank(), request.incarnation());
  if (!node) return;
  epoch_->JoinsAgain(request.held(), WhyItJoins(roster, *node, request), &out_);
  if (phase_ == Phase::kRunning) AfterEpochEvent();
}

void Membership::OpenIfComplete() {
  while (stopped_.ok() && (phase_ == Phase::kWaiting || phase_ == Phase::kFailed)) {
    if (!gathering_.Complete(AwaitedNow(), now_)) return;
    phase_ = Phase::kOpening;
    gathering_.Open(Recovers() && epoch_->MayHaveMore(now_), now_, &out_);
    if (gathering_.opening()) return;
    Rest();
  }
}

void Membership::Handle(const event::BaseFound& event) {
  if (phase_ != Phase::kOpening) return;
  gathering_.BaseFound(event, &out_);
  if (gathering_.opening()) return;
  Rest();
  OpenIfComplete();
}

void Membership::Handle(const event::Persisted& event) {
  if (phase_ != Phase::kOpening) return;
  Rest();
  if (auto world = gathering_.Persisted(event.status, now_, &out_)) {
    Begin(*std::move(world));
  } else {
    OpenIfComplete();
  }
}

// Of an elastic job of which nobody is left that has its state.
void Membership::SayLost(const v1::EpochRecord& next) {
  if (!Recovers() || next.job() != epoch_->record().job()) return;
  const uint64_t committed = epoch_->committed().round;
  if (next.base_step() >= committed) return;
  const bool checkpoint = next.base_step() > 0;
  out_.Say("steps_lost",
           absl::StrFormat("job %016x begins again at step %d, %s, and loses %s that it had "
                           "committed since: nobody is left that has the state; checkpoints limit "
                           "that (--checkpoint-every)",
                           next.job(), next.base_step(),
                           checkpoint ? "from its checkpoint" : "as it has no checkpoint",
                           FormatCount(static_cast<int>(committed - next.base_step()), "step")),
           LogLevel::kWarning);
}

void Membership::Begin(GatheredWorld world) {
  SayLost(world.record);
  phase_ = Phase::kRunning;
  reattachment_.reset();
  const v1::EpochRecord& record = world.record;
  epoch_ = std::make_unique<Epoch>(
      options_, record, Roster(std::move(world.members), record.world(), std::move(world.on_trial)),
      Committed{record.base_step(), {}}, now_, world.holders, world.regroups);
  out_.Add(action::Activate{record});
  out_.Say("epoch_begun",
           absl::StrFormat(
               "epoch %d of job %016x begins at step %d: %s, %s", record.epoch(), record.job(),
               record.base_step(), FormatCount(static_cast<int>(record.world()), "worker"),
               FormatCount(record.members_size() - static_cast<int>(record.world()), "server")));
  for (uint32_t node = 0; node < world.calls.size(); ++node) {
    out_.Reply(world.calls[node], epoch_->WelcomeTo(node));
  }
}

void Membership::Handle(const event::Agree& event) {
  const v1::AgreeRequest& request = event.request;
  const Status known = Check(request.epoch(), request.rank(), request.incarnation());
  if (!known.ok()) return out_.Reply(event.call, known);
  epoch_->Agree(event.call, request, now_, &out_);
  AfterEpochEvent();
}

void Membership::Handle(const event::Vote& event) {
  const v1::VoteRequest& vote = event.request;
  const Status known = Check(vote.epoch(), vote.rank(), vote.incarnation());
  if (!known.ok()) return out_.Reply(event.call, known);
  epoch_->WantRegroup(options_.elastic && gathering_.HasMoreThan(epoch_->roster(), now_));
  epoch_->WantCheckpoint(pulls_.wanted());
  const uint64_t before = epoch_->committed().round;
  epoch_->Vote(event.call, vote, now_, &out_);
  const Committed& committed = epoch_->committed();
  if (committed.round > before) pulls_.Committed(epoch_->record(), committed.commit, &out_);
  AfterEpochEvent();
}

Status Membership::CheckPullable() const {
  if (phase_ == Phase::kStopped) return stopped_;
  if (!options_.keeps_checkpoints) {
    return Refused("this server keeps no checkpoints to pull: start it with --store DIR");
  }
  const bool begins = phase_ == Phase::kReattaching || phase_ == Phase::kOpening ||
                      gathering_.FirstWorker().has_value();
  if (phase_ == Phase::kRunning || Recovers() || begins) return OkStatus();
  std::string last = "no job runs here";
  if (phase_ == Phase::kFailed)
    last += ", the last one failed: " + Message(epoch_->FailureStatus());
  return NotFound(last + "; take what the store has (--newest-stored)");
}

void Membership::Handle(const event::Pull& event) {
  Status possible = CheckPullable();
  if (possible.ok() && phase_ == Phase::kRunning) {
    possible = CheckPulledJob(event.request.job(), epoch_->record().job());
  }
  if (!possible.ok()) return out_.Reply(event.call, possible);
  pulls_.Add(event, CommittedRound(), now_, &out_);
}

void Membership::Handle(const event::Reattach& event) {
  const v1::ReattachRequest& request = event.request;
  if (phase_ == Phase::kReattaching) {
    reattachment_->Add(event.call, request, &out_);
    return AfterReattachmentEvent();
  }
  if (request.epoch() > epoch()) {
    return out_.Reply(
        event.call, Aborted(absl::StrFormat("this coordinator does not know epoch %d; one with the "
                                            "--store or --coord-store of the coordinator before "
                                            "would: join again",
                                            request.epoch())));
  }
  const Status known = Check(request.epoch(), request.node(), request.incarnation());
  // Of a running epoch: only its stream broke, or the answer before was lost.
  if (known.ok()) {
    epoch_->CameBack(request);
    return out_.Reply(event.call, v1::ReattachResponse());
  }
  out_.Reply(event.call, phase_ == Phase::kStopped ? known : Aborted(Message(known)));
}

void Membership::AfterReattachmentEvent() {
  if (phase_ != Phase::kReattaching) return;
  std::string why = reattachment_->why();
  if (why.empty() && reattachment_->AllLeft()) why = "all workers have left";
  if (why.empty() && !reattachment_->Complete()) return;
  if (why.empty()) {
    StatusOr<Restored> restored = reattachment_->Restore();
    StatusOr<std::unique_ptr<Epoch>> epoch =
        restored.ok() ? Epoch::Restore(options_, *restored, now_) : restored.status();
    if (epoch.ok()) {
      epoch_ = *std::move(epoch);
      reattachment_->Release(&out_);
      reattachment_.reset();
      phase_ = Phase::kRunning;
      out_.Say("epoch_resumed",
               absl::StrFormat("all members are back: epoch %d goes on after step %d",
                               epoch_->record().epoch(), epoch_->committed().round));
      return out_.Add(action::Activate{epoch_->record()});
    }
    why = Message(epoch.status());
  }
  phase_ = Phase::kWaiting;
  reattachment_->End(now_, why, &out_);
  OpenIfComplete();
}

bool Membership::HandledByReattachment(const v1::LeaveRequest& request) {
  if (!reattachment_ || epoch_ || !reattachment_->Leave(request)) return false;
  AfterReattachmentEvent();
  OpenIfComplete();
  return true;
}

void Membership::Handle(const event::Leave& event) {
  const v1::LeaveRequest& request = event.request;
  // Leaving what is over already is no error.
  out_.Reply(event.call, v1::LeaveResponse());
  if (HandledByReattachment(request)) return;
  if (Recovers() && request.epoch() == epoch_->record().epoch() &&
      epoch_->roster().Is(request.node(), request.incarnation())) {
    return Lose(request.node(), "it left");
  }
  if (!Check(request.epoch(), request.node(), request.incarnation()).ok()) return;
  epoch_->Leave(request, now_, &out_);
  AfterEpochEvent();
}

void Membership::Handle(const event::Heartbeat& event) {
  const v1::Beat& beat = event.beat;
  const bool watched = Recovers() && beat.epoch() == epoch_->record().epoch() &&
                       epoch_->roster().Is(beat.node(), beat.incarnation());
  const Status known = watched ? OkStatus() : Check(beat.epoch(), beat.node(), beat.incarnation());
  if (!known.ok()) return out_.Add(action::CloseStream{event.stream, known});
  if (epoch_->Heartbeat(event.stream, beat, now_, &out_)) {
    gathering_.RefuseTwin(epoch_->roster().member(beat.node()), now_, &out_);
  }
}

void Membership::Handle(const event::StreamBroken& event) {
  if (!HasMembers()) return;
  const auto lost = epoch_->StreamBroken(event.stream, now_, &out_);
  if (lost) return Lose(*lost, "its heartbeat stream broke");
  AfterEpochEvent();
}

// A member of the epoch that failed will not be in the next one, as far as we can tell: if it
// lives, it joins again.
void Membership::Lose(uint32_t node, const std::string& why) {
  epoch_->Lost(node);
  const std::string who = epoch_->roster().Label(node);
  out_.Say("member_lost", absl::StrFormat("%s does not come back: %s", who, why));
  gathering_.Drop(epoch_->roster().member(node), Aborted(who + ": " + why + ": join again"), &out_);
  OpenIfComplete();
}

// A process that ended before its first heartbeat leaves no stream that breaks; who was started in
// its place proves it, once it has waited for so long.
void Membership::LoseReplaced(Duration patience) {
  for (const uint32_t node : epoch_->Unattended()) {
    if (!gathering_.HasSuccessor(epoch_->roster().member(node), now_ - patience)) continue;
    const std::string why = "it ended before its first heartbeat, another process is in its place";
    if (phase_ != Phase::kRunning) return Lose(node, why);
    return epoch_->Fail({node, StatusCode::kUnavailable, why}, &out_);
  }
}

void Membership::Handle(const event::CallGone& event) {
  if (pulls_.CallGone(event.call, &out_)) return;
  if (reattachment_ && reattachment_->CallGone(event.call, &out_)) return;
  if (gathering_.CallGone(event.call, now_, &out_) || epoch_ == nullptr) return;
  epoch_->CallGone(event.call, &out_);
}

void Membership::Handle(const event::Tick&) {
  if (phase_ == Phase::kReattaching) {
    reattachment_->Tick(now_);
    AfterReattachmentEvent();
  }
  if (Recovers()) {
    for (const uint32_t node : epoch_->LoseSilent(now_)) Lose(node, "it is silent");
    LoseReplaced(Duration::zero());
  }
  OpenIfComplete();  // the time to wait for somebody, or for a disk, may be over
  const bool busy = phase_ == Phase::kRunning;
  // Who waits beside an elastic epoch waits for a place in it.
  if (!options_.elastic || !busy) gathering_.RefuseOverdue(now_, busy, AwaitedNow(), &out_);
  if (phase_ == Phase::kWaiting || phase_ == Phase::kFailed) gathering_.TellAwaited(now_, &out_);
  // A job that failed may be started again, here or elsewhere: who waits hears it when this ends.
  const Status pullable = phase_ == Phase::kFailed ? OkStatus() : CheckPullable();
  if (!pullable.ok()) pulls_.End(pullable, &out_);
  pulls_.Tick(CommittedRound(), WaitingText(), now_, &out_);
  if (!busy) return;
  LoseReplaced(Seconds(options_.failure_timeout_seconds));
  if (epoch_->state() == Epoch::State::kRunning) epoch_->Tick(now_, &out_);
  AfterEpochEvent();
}

void Membership::Handle(const event::Stop& event) {
  stopped_ = Unavailable(event.reason);
  if (options_.has_successor) {
    if (phase_ == Phase::kRunning) epoch_->Suspend(stopped_, &out_);
  } else if (phase_ == Phase::kReattaching) {
    reattachment_->End(now_, event.reason, &out_);
  } else if (phase_ == Phase::kRunning) {
    epoch_->Fail({epoch_->roster().size(), StatusCode::kUnavailable, event.reason, true}, &out_);
  }
  phase_ = Phase::kStopped;
  gathering_.Stop(StoppedForJoins(), &out_);
  pulls_.End(stopped_, &out_);
}

void Membership::AfterEpochEvent() {
  if (phase_ != Phase::kRunning || epoch_->state() == Epoch::State::kRunning) return;
  phase_ = epoch_->state() == Epoch::State::kFailed ? Phase::kFailed : Phase::kWaiting;
  if (Recovers()) {
    epoch_->Watch(now_);
    for (const uint32_t rank : epoch_->late()) {
      gathering_.WasLate(epoch_->roster().member(rank), now_, &out_);
    }
    gathering_.Restart(now_);
  }
  if (const Status ended = EndedWithout(); !ended.ok()) gathering_.DropMembers(ended, &out_);
  OpenIfComplete();
}

}  // namespace ringwood
