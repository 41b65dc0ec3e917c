#include "server/coordinator/epoch/epoch.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/text.h"

namespace ringwood {
namespace {

constexpr size_t kMaxNameBytes = 200;  // of a tensor

// An epoch lives at least so long before it ends for a process that waits to take part.
constexpr double kRegroupSeconds = 1;

// A rank that came without the state is not late before it has taken part in so many steps.
constexpr uint64_t kFirstSteps = 2;

}  // namespace

Epoch::Epoch(const MembershipOptions& options, v1::EpochRecord record, Roster roster,
             Committed committed, TimePoint now, std::vector<uint32_t> holders, bool regroups)
    : options_(options),
      record_(std::move(record)),
      roster_(std::move(roster)),
      holders_(std::move(holders)),
      regroups_(regroups),
      begun_(now),
      committed_(std::move(committed)),
      presence_(options_, roster_, record_.base_step(),
                record_.from_members() || committed_.commit.round() != 0, now),
      plan_(roster_) {}

StatusOr<std::unique_ptr<Epoch>> Epoch::Restore(const MembershipOptions& options, Restored restored,
                                                TimePoint now) {
  const uint64_t next = restored.committed.round + 1;
  Roster roster(std::move(restored.members), restored.record.world());
  auto epoch = std::make_unique<Epoch>(options, std::move(restored.record), std::move(roster),
                                       std::move(restored.committed), now);
  for (const uint32_t node : restored.left) epoch->presence_.Left(node, std::nullopt, now);
  if (restored.table) {
    RW_RETURN_IF_ERROR(
        epoch->plan_.Restore(*restored.table, next, restored.generation, restored.without_plan));
  }
  return epoch;
}

Status Epoch::Check(uint32_t node, uint64_t incarnation) const {
  if (!roster_.Is(node, incarnation)) {
    return Aborted(absl::StrFormat("node %d of epoch %d is another process: join again", node,
                                   record_.epoch()));
  }
  return state_ == State::kFailed ? FailureStatus() : OkStatus();
}

bool Epoch::Heartbeat(StreamId stream, const v1::Beat& beat, TimePoint now, Outbox* out) {
  const uint32_t node = beat.node();
  if (presence_.left(node)) {
    out->Add(action::CloseStream{stream, OkStatus()});
    return false;
  }
  const bool attends = presence_.stream(node) != stream;
  const StreamId displaced = presence_.Heartbeat(node, stream, beat, now);
  if (displaced != 0) {
    out->Add(action::CloseStream{displaced,
                                 Aborted(roster_.Label(node) + " attends on another stream")});
  }
  if (attends && Recovers()) {  // it was not told yet
    v1::Notice notice;
    *notice.mutable_failure() = failure_;
    out->Notify(stream, notice);
    return presence_.there(node);
  }
  if (attends && roster_.IsReducer(node) && plan() != nullptr) {
    out->Notify(stream, plan()->Notice(committed_.round));
  }
  return presence_.there(node);
}

std::optional<uint32_t> Epoch::StreamBroken(StreamId stream, TimePoint now, Outbox* out) {
  const std::optional<uint32_t> node = presence_.Broken(stream);
  if (!node || presence_.left(*node)) return std::nullopt;
  if (state_ == State::kRunning && IsDone(*node)) {
    presence_.Left(*node, std::nullopt, now);
    return std::nullopt;
  }
  if (state_ == State::kRunning) {
    // A launcher that sees a rank end with an error ends the others.
    const std::optional<uint32_t> first = presence_.FirstLeft();
    const auto left = presence_.LeftOthers(Progress(), now);
    if (left && !options_.elastic) {
      EndedEarly(*left, out);
      return std::nullopt;
    }
    std::string why = "its heartbeat stream broke: the process ended";
    if (first) absl::StrAppendFormat(&why, ", after %s had left", roster_.Label(*first));
    Fail({*node, StatusCode::kUnavailable, why}, out);
    return std::nullopt;
  }
  if (!Recovers() || !presence_.there(*node)) return std::nullopt;
  presence_.Lost(*node);
  return node;
}

bool Epoch::CallGone(CallId call, Outbox* out) {
  const bool held = plan_.CallGone(call) || (ballot_ != nullptr && ballot_->CallGone(call));
  if (held) out->Reply(call, Aborted("the caller went away"));
  return held;
}

void Epoch::Agree(CallId call, const v1::AgreeRequest& request, TimePoint now, Outbox* out) {
  const uint32_t rank = request.rank();
  if (rank >= roster_.world()) return out->Reply(call, Invalid("only workers agree on a plan"));
  const bool again = plan_.AsksAgain(rank);
  const Status taken = again ? plan_.TakeAgain(call, request, out) : plan_.Take(call, request, out);
  if (!taken.ok()) return Fail({rank, taken.code(), Message(taken)}, out);
  if (again) return;
  presence_.Moved(now);
  if (const std::optional<uint32_t> left = presence_.FirstLeft()) return EndedEarly({*left}, out);
  if (plan_.complete()) Activate(out);
}

void Epoch::CameBack(const v1::ReattachRequest& request) {
  if (!roster_.IsReducer(request.node()) && !request.has_table()) plan_.NotTold(request.node());
}

void Epoch::Activate(Outbox* out) {
  const Status made = plan_.Activate(committed_.round + 1);
  if (!made.ok()) return Fail(Nobody(made), out);
  TellReducersThePlan(out);
  plan_.Answer(out);
}

// Before the workers are told: the reducers are ready, or about to be, when the workers begin.
void Epoch::TellReducersThePlan(Outbox* out) const {
  for (uint32_t node = roster_.world(); node < roster_.size(); ++node) {
    out->Notify(presence_.stream(node), plan()->Notice(committed_.round));
  }
}

// Whether the vote is on the round that is next.
Status Epoch::CheckVote(const v1::VoteRequest& vote) const {
  if (vote.rank() >= roster_.world()) return Invalid("only workers vote");
  if (plan() == nullptr) {
    return Refused(roster_.Label(vote.rank()) + " voted before the ranks agreed on a plan");
  }
  if (vote.round() == committed_.round + 1) return OkStatus();
  return Refused(absl::StrFormat("%s voted on step %d, the next is %d", roster_.Label(vote.rank()),
                                 vote.round(), committed_.round + 1));
}

void Epoch::Vote(CallId call, const v1::VoteRequest& vote, TimePoint now, Outbox* out) {
  const bool known = vote.round() == committed_.round && vote.round() == committed_.commit.round();
  if (known && plan() != nullptr && vote.rank() < roster_.world()) {
    return out->Reply(call, committed_.commit);  // the answer was lost on its way; it is the same
  }
  if (const Status next = CheckVote(vote); !next.ok()) return out->Reply(call, next);
  if (ballot_ == nullptr) {
    ballot_ = std::make_unique<Ballot>(record_.epoch(), vote.round(), roster_.world(),
                                       [this](uint32_t rank) { return roster_.Label(rank); });
  }
  CallId displaced = 0;
  Status added;
  if (vote.has_plan()) added = Annotate(CheckPlan(vote.plan(), plan()->tensors()), "the new plan");
  if (added.ok()) added = ballot_->Add(call, vote, &displaced);
  out->Reply(displaced, Aborted("this rank voted again"));
  if (!added.ok()) {
    out->Reply(call, added);
    return Fail({vote.rank(), added.code(), Message(added)}, out);
  }
  plan_.Told(vote.rank());
  presence_.Moved(now);
  Decide(now, out);
}

void Epoch::Decide(TimePoint now, Outbox* out) {
  if (const std::optional<uint32_t> left = presence_.FirstLeft()) return EndedEarly({*left}, out);
  if (!ballot_->Complete()) return;
  if (!options_.elastic) {  // which would only begin another epoch
    for (const Status& alike : {ballot_->CheckSaves(), ballot_->CheckPasses()}) {
      if (!alike.ok()) return Fail(Nobody(alike), out);
    }
  }
  StatusOr<v1::Commit> commit = ballot_->Decide();
  if (!commit.ok()) return Fail(Nobody(commit.status()), out);
  committed_.round = commit->round();
  presence_.Committed(now);
  if (commit->has_plan() && !plan_.Admits(commit->plan(), out)) commit->clear_plan();
  if (commit->has_plan()) ChangePlan(&*commit, out);
  // Where all leave, the job is over with it.
  all_leave_ = commit->leaving_size() == static_cast<int>(roster_.world());
  if (!options_.elastic || all_leave_) commit->clear_leaving();
  commit->set_regroup(commit->leaving_size() > 0 ||
                      (regroup_wanted_ && now - begun_ >= Seconds(kRegroupSeconds)));
  commit->set_checkpoint_wanted(checkpoint_wanted_ && !commit->checkpoint());
  committed_.commit = *commit;
  out->ReplyAll(ballot_->Calls(), *commit);
  ballot_.reset();
  leaving_.assign(commit->leaving().begin(), commit->leaving().end());
  if (!leaving_.empty()) Regroup(roster_.world(), out);  // workers hear it with the commit
}

void Epoch::JoinsAgain(const v1::Held& held, const std::string& why, Outbox* out) {
  for (const uint32_t node : held.left()) {
    if (node < roster_.world() && held.epoch() == record_.epoch()) left_.insert(node);
  }
  if (state_ != State::kRunning) return;
  leaving_.assign(left_.begin(), left_.end());
  if (regrouping() || !leaving_.empty()) return Regroup(0, out);
  Fail({roster_.size(), StatusCode::kUnavailable, why}, out);
}

// In order. Nodes from `first` on hear it from a notice.
void Epoch::Regroup(uint32_t first, Outbox* out) {
  state_ = State::kFailed;
  regrouped_ = true;
  failure_ = RegroupingAfter(committed_.round, leaving_, roster_, record_.epoch());
  Suspend(FailureStatus(), out);
  v1::Notice notice;
  *notice.mutable_failure() = failure_;
  for (uint32_t node = first; node < roster_.size(); ++node) {
    if (!presence_.left(node)) out->Notify(presence_.stream(node), notice);
  }
}

// Between the round that is committed and the next, at the same boundary for everyone.
void Epoch::ChangePlan(v1::Commit* commit, Outbox* out) {
  plan_.Change(commit->plan());
  commit->set_generation(plan()->generation());
  TellReducersThePlan(out);
  constexpr size_t kMostReason = 1000;  // characters of a line of the log
  out->Say("plan_changed",
           absl::StrFormat("plan %d begins with step %d: %s", plan()->generation() + 1,
                           committed_.round + 1, ballot_->plan_reason().substr(0, kMostReason)));
}

void Epoch::Leave(const v1::LeaveRequest& request, TimePoint now, Outbox* out) {
  const uint32_t node = request.node();
  if (request.failed()) {
    return Fail(
        {node, StatusCode::kAborted, request.reason().empty() ? "it gave up" : request.reason()},
        out);
  }
  if (IsDone(node)) return presence_.Left(node, std::nullopt, now);
  if (roster_.IsReducer(node)) {
    return Fail({node, StatusCode::kUnavailable, "the server was stopped"}, out);
  }
  presence_.Left(node, request.has_saves() ? std::optional(request.saves()) : std::nullopt, now);
  if (plan_.agreeing() || ballot_ != nullptr) return EndedEarly({node}, out);
  if (presence_.AllLeft()) End(out);
}

// A reducer once a worker has left in order: no step follows that would need it. Where it has a
// store, another worker may be saving to it.
bool Epoch::IsDone(uint32_t node) const {
  return roster_.IsReducer(node) && !options_.elastic && presence_.FirstLeft().has_value() &&
         roster_.member(node).store_address().empty();
}

void Epoch::EndedEarly(const Presence::Leaver& left, Outbox* out) {
  if (options_.elastic) {
    return Fail({left.rank, StatusCode::kUnavailable,
                 absl::StrFormat("it left after step %d", committed_.round)},
                out);
  }
  Fail({left.rank, StatusCode::kFailedPrecondition,
        absl::StrFormat("it left after step %d %s: every rank must take the same number of "
                        "steps, and if it failed its own output says why",
                        committed_.round, left.meanwhile)},
       out);
}

void Epoch::End(Outbox* out) {
  v1::Notice notice;
  notice.mutable_ended();
  for (uint32_t node = roster_.world(); node < roster_.size(); ++node) {
    out->Notify(presence_.stream(node), notice);
  }
  out->Say("job_ended", absl::StrFormat("the job is over: all workers left cleanly after step %d",
                                        committed_.round));
  state_ = State::kEnded;
}

Standing Epoch::Progress() const {
  Standing standing;
  standing.committed = committed_.round;
  if (plan() != nullptr) {
    standing.tensors = static_cast<uint64_t>(plan()->tensors().size());
    standing.name = [this](uint32_t tensor) {
      return Printable(plan()->tensors()[static_cast<int>(tensor)].name(), kMaxNameBytes);
    };
  }
  standing.voting = ballot_ != nullptr;
  for (uint32_t rank = 0; rank < roster_.world(); ++rank) {
    if (IsNewcomer(rank)) standing.newcomers.push_back(rank);
  }
  if (ballot_ != nullptr) {
    standing.missing = ballot_->Missing();
  } else if (plan() == nullptr && plan_.agreeing()) {
    standing.missing = plan_.Missing();
  } else {
    for (uint32_t rank = 0; rank < roster_.world(); ++rank) {
      if (!presence_.left(rank)) standing.missing.push_back(rank);
    }
  }
  return standing;
}

bool Epoch::IsNewcomer(uint32_t rank) const {
  return committed_.round < record_.base_step() + kFirstSteps &&
         std::find(holders_.begin(), holders_.end(), rank) == holders_.end();
}

std::vector<uint32_t> Epoch::Unattended() const {
  std::vector<uint32_t> nodes;
  for (uint32_t node = 0; node < roster_.size(); ++node) {
    if (presence_.there(node) && presence_.stream(node) == 0) nodes.push_back(node);
  }
  return nodes;
}

void Epoch::Tick(TimePoint now, Outbox* out) {
  const Standing standing = Progress();
  if (const auto silent = presence_.Silent(standing, now)) return Fail(*silent, out);
  if (const auto left = presence_.EndedEarly(standing, now)) return EndedEarly(*left, out);
  if (const auto late = presence_.Late(standing, now)) return Fail(*late, out);
  if (const auto crossed = presence_.Crossed(standing, now)) return Fail(*crossed, out);
  const auto stall = presence_.LookForStall(standing, now);
  if (!stall) return;
  if (stall->blame) return Fail(*stall->blame, out);
  out->Say("stalled", stall->text, LogLevel::kWarning);
}

void Epoch::Fail(const Blame& blame, Outbox* out) {
  RW_CHECK(state_ == State::kRunning);
  state_ = State::kFailed;
  failure_ = FailureOf(blame, roster_, record_.epoch(), committed_.round + 1, options_.elastic);
  if (blame.node < roster_.size()) presence_.Lost(blame.node);
  late_ = blame.late;
  for (const uint32_t rank : late_) presence_.Lost(rank);
  const Status status = FailureStatus();
  out->Add(action::Verdict{failure_});
  Suspend(status, out);
  v1::Notice notice;
  *notice.mutable_failure() = failure_;
  for (uint32_t node = 0; node < roster_.size(); ++node) {
    if (!presence_.left(node)) out->Notify(presence_.stream(node), notice);
  }
}

void Epoch::Suspend(const Status& why, Outbox* out) {
  plan_.Refuse(why, out);
  if (ballot_ != nullptr) out->ReplyAll(ballot_->Calls(), why);
  ballot_.reset();
}

std::vector<uint32_t> Epoch::HeldUpBy() const {
  std::vector<uint32_t> ranks = presence_.WhoHolds(Progress()).ranks;
  return ranks.size() < roster_.world() ? ranks : std::vector<uint32_t>();
}

void Epoch::Watch(TimePoint now) {
  watched_since_ = now;
  presence_.Watch(Progress(), now);
}

bool Epoch::MayHaveMore(TimePoint now) const {
  if (!Recovers() || now - watched_since_ > Seconds(options_.join_timeout_seconds)) return false;
  for (uint32_t rank = 0; rank < roster_.world(); ++rank) {
    if (presence_.silent(rank)) return true;
  }
  return false;
}

std::vector<Awaited> Epoch::AwaitedBy(TimePoint now) const {
  if (!Recovers() || now - watched_since_ > Seconds(options_.join_timeout_seconds)) return {};
  std::vector<Awaited> awaited;
  for (uint32_t node = 0; node < roster_.size(); ++node) {
    if (left_.contains(node) || !presence_.there(node)) continue;
    const v1::JoinRequest& member = roster_.member(node);
    awaited.push_back({{member.role(), member.rank()}, member.incarnation()});
  }
  return awaited;
}

Status Epoch::FailureStatus() const {
  if (regrouped_) {
    return Aborted(absl::StrFormat("epoch %d ended with step %d: %s", record_.epoch(),
                                   committed_.round, failure_.reason()));
  }
  return StatusOf(failure_);
}

}  // namespace ringwood
