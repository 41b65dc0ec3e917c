#include "server/coordinator/membership.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/text.h"

namespace ringwood {
namespace {

// A member may have seen epochs that a coordinator without its disk has forgotten; a number further
// ahead than this is not from a job of this coordinator.
constexpr uint64_t kMaxEpochsAhead = 1u << 20;

constexpr size_t kMaxLineBytes = 2000;  // of the log
// Of what a stranger may send, and everyone else is told.
constexpr size_t kMaxHostBytes = 255;
constexpr size_t kMaxAddressBytes = 16 << 10;
// Lines about refused joins: so many in such a time, of the others their number.
constexpr uint64_t kMostRefusals = 8;
constexpr double kRefusalSeconds = 10;

}  // namespace

std::string Membership::Member::Label() const {
  return MemberLabel(joined.role(), joined.rank(), joined.host());
}

Membership::Membership(MembershipOptions options, v1::EpochRecord recovered)
    : options_(std::move(options)),
      record_(std::move(recovered)),
      room_(options_.servers),
      watch_(Seconds(options_.failure_timeout_seconds), Seconds(options_.join_timeout_seconds)) {
  record_.clear_members();  // they live only in the memory of the coordinator that saw them join
  record_.set_world(0);
}

Actions Membership::On(const Event& event, TimePoint now) {
  actions_.clear();
  now_ = now;
  Forgive(now);
  std::visit([this](const auto& happened) { Handle(happened); }, event);
  return std::move(actions_);
}

// While this process itself stood still (stopped, swapped out), nobody could reach it: that time
// counts as nobody's silence.
void Membership::Forgive(TimePoint now) {
  const Duration gap = now - last_event_;
  last_event_ = now;
  if (gap <= 2 * Seconds(options_.heartbeat_seconds)) return;
  for (Member& member : members_) member.heard += gap;
  left_ += gap;
  watch_.Forgive(gap);
}

void Membership::Say(const std::string& text, LogLevel level) {
  actions_.push_back(action::Report{Printable(text, kMaxLineBytes), level});
}

void Membership::SayRefused(const std::string& why) {
  if (now_ - refusals_since_ > Seconds(kRefusalSeconds)) {
    if (refusals_ > kMostRefusals) {
      Say(absl::StrFormat("%d more joins were refused", refusals_ - kMostRefusals));
    }
    refusals_since_ = now_;
    refusals_ = 0;
  }
  if (++refusals_ <= kMostRefusals) Say("refused: " + why);
}

// Identity comes first: what else a stranger brings is neither kept nor repeated.
Status Membership::Admit(const v1::JoinRequest& request) const {
  if (const std::string host = Printable(request.host(), kMaxHostBytes); host != request.host()) {
    return Invalid("the host name \"" + host +
                   "\" has control characters or more than 255 bytes: give another (--host, "
                   "RINGWOOD_HOST)");
  }
  if (request.fabric_address().size() > kMaxAddressBytes) {
    return Invalid(
        absl::StrFormat("a fabric address of %d bytes is none", request.fabric_address().size()));
  }
  const OwnReducer& own = options_.own_reducer;
  if (own.incarnation != 0 && request.role() == v1::ROLE_REDUCER && request.rank() == own.index &&
      request.incarnation() != own.incarnation) {
    return AlreadyExists(absl::StrFormat(
        "server %d is in the coordinator's own process, one on host %s cannot take its place: give "
        "another --reducer-index, and --servers %d to all",
        own.index, request.host(), std::max(options_.servers, 2)));
  }
  return room_.Admit(request);
}

void Membership::Handle(const event::Join& event) {
  const v1::JoinRequest& request = event.request;
  if (phase_ == Phase::kStopped) return Reply(event.call, stopped_);
  if (Status admitted = Admit(request); !admitted.ok()) {
    SayRefused(Message(admitted));
    return Reply(event.call, admitted);
  }
  const uint64_t floor = std::max(record_.epoch(), proposed_.epoch());
  if (request.newest_epoch_seen() > floor + kMaxEpochsAhead) {
    return Reply(event.call, Invalid(absl::StrFormat(
                                 "%s has seen epoch %d, this server is at %d: it belongs "
                                 "to another job",
                                 MemberLabel(request.role(), request.rank(), request.host()),
                                 request.newest_epoch_seen(), floor)));
  }
  auto displaced = room_.Add({event.call, request, now_, event.fresh_job});
  if (displaced) {
    const bool same = displaced->request.incarnation() == request.incarnation();
    const std::string who = MemberLabel(request.role(), request.rank(), request.host());
    Reply(displaced->call,
          same ? Aborted(who + " asked to join again")
               : AlreadyExists(absl::StrFormat(
                     "%s was started again, as %s, and the newest wins: "
                     "start each rank once",
                     MemberLabel(request.role(), request.rank(), displaced->request.host()), who)));
  }
  OpenIfComplete();
}

void Membership::OpenIfComplete() {
  if (!stopped_.ok() || (phase_ != Phase::kWaiting && phase_ != Phase::kFailed)) return;
  if (!room_.Complete()) return;
  phase_ = Phase::kOpening;
  members_.clear();
  uint64_t newest = record_.epoch();
  uint64_t fresh_job = 0;
  for (Waiting& waiting : room_.TakeAll()) {
    newest = std::max(newest, waiting.request.newest_epoch_seen());
    if (fresh_job == 0) fresh_job = waiting.fresh_job;
    members_.push_back({std::move(waiting.request), waiting.call, 0, now_});
  }
  // TakeAll is in order of (role, rank), and a worker's role is the smaller number: node order.
  proposed_.Clear();
  proposed_.set_epoch(newest + 1);
  proposed_.set_world(members_.front().joined.world());
  const v1::JoinRequest& first = members_.front().joined;
  proposed_.set_job(first.job() != 0 ? first.job() : fresh_job);
  for (const Member& member : members_) {
    v1::RecordedMember* recorded = proposed_.add_members();
    recorded->set_role(member.joined.role());
    recorded->set_rank(member.joined.rank());
    recorded->set_host(member.joined.host());
    recorded->set_incarnation(member.joined.incarnation());
  }
  if (first.resume()) {
    actions_.push_back(action::FindBase{first.job()});
  } else {
    actions_.push_back(action::Persist{proposed_});
  }
}

void Membership::Handle(const event::BaseFound& event) {
  if (phase_ != Phase::kOpening) return;
  if (!event.base.ok()) return AbandonOpening(event.base.status());
  if (const auto& base = *event.base) {
    proposed_.set_job(base->job);
    proposed_.set_base_epoch(base->epoch);
    proposed_.set_base_step(base->step);
    proposed_.set_epoch(std::max(proposed_.epoch(), base->epoch + 1));
    if (base->world != proposed_.world()) {
      Say(absl::StrFormat("resuming %d workers from a checkpoint of %d", proposed_.world(),
                          base->world));
    }
  } else if (const v1::JoinRequest& first = members_.front().joined; !first.or_start()) {
    const std::string whose =
        first.job() == 0 ? "any job" : absl::StrFormat("job %016x", first.job());
    return AbandonOpening(NotFound(
        "resume: there is no complete checkpoint of " + whose +
        ": is --store the right one (ringwood checkpoint list --store DIR)? --resume=auto starts a "
        "new job where there is nothing to continue"));
  }
  actions_.push_back(action::Persist{proposed_});
}

void Membership::AbandonOpening(const Status& why) {
  phase_ = Phase::kWaiting;
  for (Member& member : members_) Reply(member.call, why);
  members_.clear();
}

void Membership::Handle(const event::Persisted& event) {
  if (phase_ != Phase::kOpening) return;
  if (!event.status.ok()) {
    return AbandonOpening(Annotate(event.status, "the coordinator cannot keep its epoch"));
  }
  record_ = proposed_;
  const bool someone_left = std::any_of(members_.begin(), members_.end(),
                                        [](const Member& member) { return member.call == 0; });
  if (!someone_left) return Begin();
  phase_ = Phase::kWaiting;  // the number is used up; those who still wait gather again
  for (Member& member : members_) {
    if (member.call == 0) continue;
    auto displaced = WaitingRoom::Seat(member.joined.role(), member.joined.rank());
    if (room_.Find(displaced) != nullptr) {
      Reply(member.call, AlreadyExists(member.Label() + " was started again, the newest wins"));
    } else {
      room_.Add({member.call, member.joined, now_, record_.job()});
    }
  }
  members_.clear();
  OpenIfComplete();
}

void Membership::Begin() {
  phase_ = Phase::kRunning;
  agreement_.reset();
  activated_.reset();
  generation_ = 0;
  ballot_.reset();
  last_commit_.Clear();
  failure_.Clear();
  committed_ = record_.base_step();
  watch_.Start(now_);
  actions_.push_back(action::Activate{record_});
  Say(absl::StrFormat("epoch %d of job %016x begins at step %d: %d workers, %d servers",
                      record_.epoch(), record_.job(), committed_, world(), options_.servers));
  for (uint32_t node = 0; node < members_.size(); ++node) {
    Member& member = members_[node];
    member.heard = now_;
    member.step = committed_;
    Reply(std::exchange(member.call, 0), WelcomeTo(node));
  }
}

v1::JoinResponse Membership::WelcomeTo(uint32_t node) const {
  v1::JoinResponse welcome;
  welcome.set_job(record_.job());
  welcome.set_epoch(record_.epoch());
  welcome.set_node(node);
  welcome.set_base_step(record_.base_step());
  welcome.set_has_checkpoint(record_.base_epoch() != 0);
  welcome.set_base_epoch(record_.base_epoch());
  welcome.set_failure_timeout_seconds(options_.failure_timeout_seconds);
  welcome.set_heartbeat_seconds(options_.heartbeat_seconds);
  for (uint32_t other = 0; other < members_.size(); ++other) {
    const v1::JoinRequest& joined = members_[other].joined;
    v1::Member* member = welcome.add_members();
    member->set_node(other);
    member->set_role(joined.role());
    member->set_rank(joined.rank());
    member->set_host(joined.host());
    member->set_fabric_address(joined.fabric_address());
  }
  return welcome;
}

void Membership::Handle(const event::Tick&) {
  for (const Waiting& late : room_.TakeOverdue(now_, options_.join_timeout_seconds)) {
    room_.Add(late);  // so that Missing() speaks of the world as it is for everyone
    const std::string missing = room_.Missing();
    room_.Remove(late.call);
    const bool busy = phase_ == Phase::kRunning;
    Reply(late.call,
          TimedOut(absl::StrFormat(
              "%s waited %g s to join: %s",
              MemberLabel(late.request.role(), late.request.rank(), late.request.host()),
              WaitingRoom::PatienceOf(late, options_.join_timeout_seconds),
              busy ? "another job runs on this server; wait for its end or start a second server"
                   : missing + " did not join; look at their output, or raise --join-timeout")));
  }
  if (phase_ == Phase::kRunning) LookForSilence();
  if (phase_ == Phase::kRunning) LookForEarlyEnd();
  if (phase_ == Phase::kRunning) LookForStall();
}

void Membership::Handle(const event::Stop& event) {
  stopped_ = Unavailable(event.reason);
  if (phase_ == Phase::kRunning) {
    Fail(members_.size(), StatusCode::kUnavailable, event.reason);
  } else if (phase_ == Phase::kOpening) {
    AbandonOpening(stopped_);
  }
  phase_ = Phase::kStopped;
  for (const Waiting& waiting : room_.TakeAll()) Reply(waiting.call, stopped_);
}

}  // namespace ringwood
