// Membership within a running epoch: attending, agreeing, voting, leaving, failing.
#include <algorithm>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/text.h"
#include "plan/wire.h"
#include "server/coordinator/admission.h"
#include "server/coordinator/membership.h"

namespace ringwood {
namespace {

// Of what a notice says of a failure: a traceback fits. Statuses carry less of it (ToGrpc).
constexpr size_t kMaxReasonBytes = 16 << 10;

}  // namespace

StatusOr<Membership::Member*> Membership::Find(uint64_t epoch, uint32_t node,
                                               uint64_t incarnation) {
  if (phase_ == Phase::kStopped) return stopped_;
  if (epoch != record_.epoch() || (phase_ != Phase::kRunning && phase_ != Phase::kFailed)) {
    return Aborted(
        absl::StrFormat("epoch %d is over (the newest is %d): join again", epoch, record_.epoch()));
  }
  if (node >= members_.size() || members_[node].joined.incarnation() != incarnation) {
    return Aborted(
        absl::StrFormat("node %d of epoch %d is another process: join again", node, epoch));
  }
  if (phase_ == Phase::kFailed) return FailureStatus();
  return &members_[node];
}

Membership::Member* Membership::FindStream(StreamId stream, uint32_t* node) {
  for (*node = 0; *node < members_.size(); ++*node) {
    if (members_[*node].stream == stream) return &members_[*node];
  }
  return nullptr;
}

bool Membership::Attends(StreamId stream) const {
  return std::any_of(members_.begin(), members_.end(),
                     [stream](const Member& member) { return member.stream == stream; });
}

void Membership::Handle(const event::Heartbeat& event) {
  const v1::Beat& beat = event.beat;
  StatusOr<Member*> found = Find(beat.epoch(), beat.node(), beat.incarnation());
  if (!found.ok()) {
    actions_.push_back(action::CloseStream{event.stream, found.status()});
    return;
  }
  Member& member = **found;
  if (member.left) {
    actions_.push_back(action::CloseStream{event.stream, OkStatus()});
    return;
  }
  if (member.stream != event.stream) Attend(beat.node(), event.stream);
  member.heard = now_;
  if (beat.progress() != member.progress || beat.step() != member.step) watch_.Moved(now_);
  member.step = beat.step();
  member.progress = beat.progress();
  member.begun = member.begun || beat.begun();
  RefuseTwin(member);
}

void Membership::Attend(uint32_t node, StreamId stream) {
  Member& member = members_[node];
  if (member.stream != 0) {
    actions_.push_back(
        action::CloseStream{member.stream, Aborted(member.Label() + " attends on another stream")});
  }
  member.stream = stream;
  if (member.joined.role() == v1::ROLE_REDUCER && activated_ != nullptr) {
    actions_.push_back(action::Notify{stream, PlanNotice()});
  }
}

// A second process of a rank waits while the first may be dead; a heartbeat of the first, later by
// more than any beat can have been under way, proves that it lives.
void Membership::RefuseTwin(const Member& member) {
  const WaitingRoom::Seat seat{member.joined.role(), member.joined.rank()};
  const Waiting* twin = room_.Find(seat);
  if (twin == nullptr || twin->request.incarnation() == member.joined.incarnation()) return;
  if (now_ - twin->since < Seconds(options_.heartbeat_seconds)) return;
  const Waiting refused = *room_.Remove(seat);
  Reply(refused.call,
        AlreadyExists(absl::StrFormat(
            "%s runs in epoch %d already; a second one was started on host %s: end the first, or "
            "start a second job against a server of its own",
            member.Label(), record_.epoch(), refused.request.host())));
}

void Membership::Handle(const event::StreamBroken& event) {
  uint32_t node = 0;
  Member* member = FindStream(event.stream, &node);
  if (member == nullptr) return;
  member->stream = 0;
  if (phase_ != Phase::kRunning || member->left) return;
  Fail(node, StatusCode::kUnavailable, "its heartbeat stream broke: the process ended");
}

void Membership::Handle(const event::CallGone& event) {
  if (auto gone = room_.Remove(event.call)) {
    return Reply(event.call, Aborted("the caller went away"));
  }
  bool held = false;
  for (Member& member : members_) {
    if (member.call != event.call) continue;
    member.call = 0;
    held = true;
  }
  for (const std::vector<CallId>& calls : {agreement_ ? agreement_->Calls() : std::vector<CallId>(),
                                           ballot_ ? ballot_->Calls() : std::vector<CallId>()}) {
    held |= std::find(calls.begin(), calls.end(), event.call) != calls.end();
  }
  if (agreement_) agreement_->Forget(event.call);
  if (ballot_) ballot_->Forget(event.call);
  if (held) Reply(event.call, Aborted("the caller went away"));
}

void Membership::Handle(const event::Agree& event) {
  const v1::AgreeRequest& request = event.request;
  StatusOr<Member*> found = Find(request.epoch(), request.rank(), request.incarnation());
  if (found.ok() && request.rank() >= world()) found = Invalid("only workers agree on a plan");
  if (!found.ok()) return Reply(event.call, found.status());
  if (agreement_ == nullptr) {
    agreement_ =
        std::make_unique<Agreement>(world(), [this](uint32_t rank) { return LabelOf(rank); });
  }
  CallId displaced = 0;
  Status added = agreement_->Add(event.call, request, &displaced);
  Reply(displaced, Aborted("this rank asked again"));
  if (!added.ok()) {
    Reply(event.call, added);
    return Fail(request.rank(), added.code(), Message(added));
  }
  watch_.Moved(now_);
  if (agreement_->Complete()) Activated();
}

void Membership::Activated() {
  activated_ = std::make_unique<v1::Activated>();
  activated_->set_from_round(committed_ + 1);
  *activated_->mutable_tensors() = agreement_->table().tensors();
  *activated_->mutable_plan() = agreement_->plan();
  if (const Status admitted = AdmitPlan(activated_->plan()); !admitted.ok()) {
    activated_.reset();
    return Fail(members_.size(), admitted.code(), Message(admitted));
  }
  TellReducersThePlan();
  v1::AgreeResponse response;
  *response.mutable_plan() = agreement_->plan();
  response.set_from_round(activated_->from_round());
  for (CallId call : agreement_->Calls()) Reply(call, response);
  agreement_.reset();
}

Status Membership::AdmitPlan(const v1::Plan& plan) const {
  std::vector<ServerLimit> servers;
  for (uint32_t node = world(); node < members_.size(); ++node) {
    servers.push_back({members_[node].Label(), members_[node].joined.max_memory_bytes()});
  }
  return ringwood::AdmitPlan(plan, activated_->tensors(), world(), servers);
}

// Before the workers hear of it: the reducers' part stands, or is on its way, when they begin.
void Membership::TellReducersThePlan() {
  for (const Member& member : members_) {
    if (member.joined.role() == v1::ROLE_REDUCER && member.stream != 0) {
      actions_.push_back(action::Notify{member.stream, PlanNotice()});
    }
  }
}

// Between the round that is committed and the next, at the same boundary for everyone.
void Membership::ChangePlan(v1::Commit* commit, const std::string& reason) {
  commit->set_generation(++generation_);
  *activated_->mutable_plan() = commit->plan();
  TellReducersThePlan();
  constexpr size_t kMostReason = 1000;  // characters of a line of the log
  Say(absl::StrFormat("plan %d begins with step %d: %s", generation_ + 1, committed_ + 1,
                      reason.substr(0, kMostReason)));
}

v1::Notice Membership::PlanNotice() const {
  v1::Notice notice;
  *notice.mutable_plan() = *activated_;
  notice.mutable_plan()->set_from_round(WireRound(generation_, committed_ + 1));
  return notice;
}

void Membership::Handle(const event::Vote& event) {
  const v1::VoteRequest& vote = event.request;
  StatusOr<Member*> found = Find(vote.epoch(), vote.rank(), vote.incarnation());
  if (found.ok() && vote.rank() >= world()) found = Invalid("only workers vote");
  if (found.ok() && activated_ == nullptr) {
    found = Refused(LabelOf(vote.rank()) + " voted before the ranks agreed on a plan");
  }
  if (!found.ok()) return Reply(event.call, found.status());
  if (vote.round() == last_commit_.round() && vote.round() == committed_) {
    return Reply(event.call, last_commit_);  // the answer was lost on its way; it is the same
  }
  if (vote.round() != committed_ + 1) {
    return Reply(event.call,
                 Refused(absl::StrFormat("%s voted on step %d, the next is %d",
                                         LabelOf(vote.rank()), vote.round(), committed_ + 1)));
  }
  if (ballot_ == nullptr) {
    ballot_ = std::make_unique<Ballot>(record_.epoch(), vote.round(), world(),
                                       [this](uint32_t rank) { return LabelOf(rank); });
  }
  CallId displaced = 0;
  Status added;
  if (vote.has_plan()) {
    added = Annotate(CheckPlan(vote.plan(), activated_->tensors()), "the new plan");
  }
  if (added.ok()) added = ballot_->Add(event.call, vote, &displaced);
  Reply(displaced, Aborted("this rank voted again"));
  if (!added.ok()) {
    Reply(event.call, added);
    return Fail(vote.rank(), added.code(), Message(added));
  }
  watch_.Moved(now_);
  Decide();
}

void Membership::Decide() {
  for (uint32_t rank = 0; rank < world(); ++rank) {
    if (members_[rank].left) return EndedEarly(rank);
  }
  if (!ballot_->Complete()) return;
  StatusOr<v1::Commit> commit = ballot_->Decide();
  if (!commit.ok()) return Fail(members_.size(), commit.status().code(), Message(commit.status()));
  committed_ = commit->round();
  watch_.Committed(now_);
  if (commit->has_plan()) {
    if (const Status admitted = AdmitPlan(commit->plan()); !admitted.ok()) {
      Say("a new plan is not taken: " + Message(admitted));
      commit->clear_plan();
    }
  }
  if (commit->has_plan()) ChangePlan(&*commit, ballot_->plan_reason());
  last_commit_ = *commit;
  for (CallId call : ballot_->Calls()) Reply(call, *commit);
  ballot_.reset();
}

void Membership::Handle(const event::Leave& event) {
  const v1::LeaveRequest& request = event.request;
  StatusOr<Member*> found = Find(request.epoch(), request.node(), request.incarnation());
  // Leaving what is over already is no error.
  Reply(event.call, v1::LeaveResponse());
  if (!found.ok()) return;
  Member& member = **found;
  if (request.failed()) {
    return Fail(request.node(), StatusCode::kAborted,
                request.reason().empty() ? "it gave up" : request.reason());
  }
  if (request.node() >= world()) {
    return Fail(request.node(), StatusCode::kUnavailable, "the server was stopped");
  }
  member.left = true;
  if (agreement_ != nullptr || ballot_ != nullptr) {
    return EndedEarly(request.node());
  }
  left_ = now_;
  const bool all_left = std::all_of(members_.begin(), members_.begin() + world(),
                                    [](const Member& worker) { return worker.left; });
  if (all_left) End();
}

void Membership::EndedEarly(uint32_t rank) {
  Fail(
      rank, StatusCode::kFailedPrecondition,
      absl::StrFormat("it ended normally after step %d while others train on: every rank must take "
                      "the same number of steps",
                      committed_));
}

void Membership::End() {
  v1::Notice notice;
  notice.mutable_ended();
  for (const Member& member : members_) {
    if (member.joined.role() == v1::ROLE_REDUCER && member.stream != 0) {
      actions_.push_back(action::Notify{member.stream, notice});
    }
  }
  Say(absl::StrFormat("the job is over: all workers left in order after step %d", committed_));
  phase_ = Phase::kWaiting;
  members_.clear();
  activated_.reset();
  OpenIfComplete();
}

// `node` == members_.size(): no single member is to blame.
void Membership::Fail(uint32_t node, StatusCode code, const std::string& reason) {
  RW_CHECK(phase_ == Phase::kRunning);
  phase_ = Phase::kFailed;
  failure_.Clear();
  failure_.set_node(node);
  if (node < members_.size()) failure_.set_who(members_[node].Label());
  failure_.set_epoch(record_.epoch());
  failure_.set_step(committed_ + 1);
  failure_.set_reason(Printable(reason, kMaxReasonBytes));
  failure_.set_code(static_cast<int32_t>(code));
  const Status status = FailureStatus();
  actions_.push_back(action::Verdict{failure_});
  if (agreement_) {
    for (CallId call : agreement_->Calls()) Reply(call, status);
  }
  if (ballot_) {
    for (CallId call : ballot_->Calls()) Reply(call, status);
  }
  agreement_.reset();
  ballot_.reset();
  v1::Notice notice;
  *notice.mutable_failure() = failure_;
  for (const Member& member : members_) {
    if (member.stream != 0 && !member.left) {
      actions_.push_back(action::Notify{member.stream, notice});
    }
  }
  OpenIfComplete();
}

std::string Membership::LabelOf(uint32_t node) const {
  return node < members_.size() ? members_[node].Label() : absl::StrFormat("node %d", node);
}

Status Membership::FailureStatus() const {
  return Status(static_cast<StatusCode>(failure_.code()),
                absl::StrFormat("%s failed at step %d of epoch %d: %s",
                                failure_.who().empty() ? "the job" : failure_.who(),
                                failure_.step(), failure_.epoch(), failure_.reason()));
}

}  // namespace ringwood
