#include "server/coordinator/gathering.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/text.h"

namespace ringwood {
namespace {

// A member may have seen epochs that a coordinator without its disk has forgotten; a number further
// ahead than this is not from a job of this coordinator.
constexpr uint64_t kMaxEpochsAhead = 1u << 20;

// A round has 40 bits in the data plane (plan/wire.h).
constexpr uint64_t kMaxRounds = 1ull << 40;

// Of what a stranger may send, and everyone else is told.
constexpr size_t kMaxHostBytes = 255;
constexpr size_t kMaxAddressBytes = 16 << 10;
// Lines about refused joins: so many in such a time, of the others their number.
constexpr uint64_t kMostRefusals = 8;
constexpr double kRefusalSeconds = 10;

constexpr double kAgainSeconds = 1;  // until a disk that failed, or the room, is looked at again
constexpr double kLateSeconds = 1;   // that a straggler stays apart the first time

std::string LabelOfJoin(const v1::JoinRequest& request) {
  return MemberLabel(request.role(), request.rank(), request.host());
}

// The worker that says what job this is and from what it starts: of an elastic job one that
// resumes, where one does (spares may have been started before there was anything to resume).
const Waiting& FirstOf(const std::vector<Waiting>& candidates) {
  const auto resumes =
      std::find_if(candidates.begin(), candidates.end(), [](const Waiting& candidate) {
        return candidate.request.role() == v1::ROLE_WORKER && candidate.request.resume();
      });
  return resumes != candidates.end() ? *resumes : candidates.front();
}

// The same slot and the same process. What was read from disk has hashes only.
bool WasMember(const v1::EpochRecord& record, const v1::JoinRequest& request,
               const MembershipOptions& options) {
  const auto is = [&](const v1::RecordedMember& member) {
    if (member.role() != request.role() || member.rank() != request.rank()) return false;
    if (member.incarnation() != 0) return member.incarnation() == request.incarnation();
    return options.hash && member.incarnation_hash() == options.hash(request.incarnation());
  };
  return std::any_of(record.members().begin(), record.members().end(), is);
}

}  // namespace

Gathering::Gathering(const MembershipOptions& options, v1::EpochRecord recovered)
    : options_(options),
      record_(std::move(recovered)),
      room_(options),
      cut_offs_(Seconds(options.failure_timeout_seconds)),
      stragglers_(Seconds(kLateSeconds)) {
  if (options_.elastic) return;
  record_.clear_members();  // they live only in the memory of the coordinator that saw them join
  record_.set_world(0);
}

void Gathering::SayRefused(const std::string& why, TimePoint now, Outbox* out) {
  if (now - refusals_since_ > Seconds(kRefusalSeconds)) {
    if (refusals_ > kMostRefusals) {
      out->Say("join_refused",
               absl::StrFormat("%d more joins were refused", refusals_ - kMostRefusals));
    }
    refusals_since_ = now;
    refusals_ = 0;
  }
  if (++refusals_ <= kMostRefusals) out->Say("join_refused", "refused: " + why);
}

// Identity comes first: what else a stranger brings is neither kept nor repeated.
Status Gathering::Admit(const v1::JoinRequest& request) const {
  if (const std::string host = Printable(request.host(), kMaxHostBytes); host != request.host()) {
    return Invalid("the host name \"" + host +
                   "\" has control characters or more than 255 bytes: give another (--host, "
                   "RINGWOOD_HOST)");
  }
  if (request.fabric_address().size() > kMaxAddressBytes) {
    return Invalid(
        absl::StrFormat("a fabric address of %d bytes is none", request.fabric_address().size()));
  }
  RW_RETURN_IF_ERROR(AdmitStore(request));
  const OwnReducer& own = options_.own_reducer;
  if (own.incarnation != 0 && request.role() == v1::ROLE_REDUCER && request.rank() == own.index &&
      request.incarnation() != own.incarnation) {
    return AlreadyExists(absl::StrFormat(
        "server %d is in the coordinator's own process, one on host %s cannot take its place: give "
        "another --reducer-index, and --servers %d to all",
        own.index, request.host(), std::max(options_.servers, 2)));
  }
  RW_RETURN_IF_ERROR(AdmitHeld(request));
  return room_.Admit(request);
}

Status Gathering::AdmitStore(const v1::JoinRequest& request) const {
  if (request.store_address().empty()) return OkStatus();
  if (request.role() != v1::ROLE_REDUCER || request.store_address().size() > kMaxHostBytes) {
    return Invalid("a rank has no store, and no store has such an address");
  }
  if (options_.divides_checkpoints) return OkStatus();
  return Refused(absl::StrFormat(
      "%s has a --store, in which it would keep a part of the checkpoints, and %s: leave out its "
      "--store",
      LabelOfJoin(request), options_.why_undivided));
}

// What a process says that it has of an elastic job; of a reducer only whom it did not hear.
Status Gathering::AdmitHeld(const v1::JoinRequest& request) const {
  if (!request.has_held()) return OkStatus();
  const std::string who = LabelOfJoin(request);
  if (!options_.elastic) {
    return Refused(who + " was part of an elastic job: start the server with --elastic");
  }
  if (request.held().epoch() == 0 || request.held().round() >= kMaxRounds) {
    return Invalid(who + " says that it has a part of a job, in no epoch or round of it");
  }
  if (!HasPart(request) || request.held().job() == record_.job()) return OkStatus();
  return Unavailable(
      absl::StrFormat("%s was part of job %016x, which this server does not have: "
                      "start it again from its checkpoint",
                      who, request.held().job()));
}

void Gathering::Join(const event::Join& join, TimePoint now, Outbox* out) {
  const v1::JoinRequest& request = join.request;
  if (Status admitted = Admit(request); !admitted.ok()) {
    SayRefused(Message(admitted), now, out);
    return out->Reply(join.call, admitted);
  }
  if (std::exchange(awaits_more_, false)) again_ = {};
  const uint64_t floor = std::max(record_.epoch(), proposed_.epoch());
  if (request.newest_epoch_seen() > floor + kMaxEpochsAhead) {
    return out->Reply(join.call, Invalid(absl::StrFormat(
                                     "%s has seen epoch %d, this server is at %d: it "
                                     "belongs to another job",
                                     LabelOfJoin(request), request.newest_epoch_seen(), floor)));
  }
  const auto displaced =
      room_.Add({join.call, request, now, join.fresh_job, ApartUntil(request.incarnation())});
  if (!displaced) return;
  const bool same = displaced->request.incarnation() == request.incarnation();
  const std::string who = LabelOfJoin(request);
  out->Reply(displaced->call,
             same ? Aborted(who + " asked to join again")
                  : AlreadyExists(absl::StrFormat(
                        "%s was started again, as %s, and the newest wins: start each rank once",
                        LabelOfJoin(displaced->request), who)));
}

bool Gathering::CallGone(CallId call, Outbox* out) {
  bool held = room_.Remove(call).has_value();
  for (Waiting& candidate : candidates_) {
    if (candidate.call != call) continue;
    candidate.call = 0;
    held = true;
  }
  if (held) out->Reply(call, Aborted("the caller went away"));
  return held;
}

void Gathering::RefuseOverdue(TimePoint now, bool busy, const std::vector<Awaited>& awaited,
                              Outbox* out) {
  for (const Waiting& late : room_.TakeOverdue(now, options_.join_timeout_seconds)) {
    room_.Add(late);  // so that Missing() speaks of the world as it is for everyone
    const std::string missing = room_.Missing(awaited, now);
    room_.Remove(late.call);
    out->Reply(
        late.call,
        TimedOut(absl::StrFormat(
            "%s waited %g s to join: %s", LabelOfJoin(late.request),
            WaitingRoom::PatienceOf(late, options_.join_timeout_seconds),
            busy ? "another job runs on this server; wait for its end or start a second server"
            : missing.empty()
                ? "the coordinator cannot keep its epoch; look at its output"
                : missing + " did not join; look at their output, or raise --join-timeout")));
  }
}

void Gathering::RefuseTwin(const v1::JoinRequest& member, TimePoint now, Outbox* out) {
  const Seat seat{member.role(), member.rank()};
  const Waiting* twin = room_.Find(seat);
  if (twin == nullptr || twin->request.incarnation() == member.incarnation()) return;
  if (now - twin->since < Seconds(options_.heartbeat_seconds)) return;
  const Waiting refused = *room_.Remove(seat);
  out->Reply(refused.call,
             AlreadyExists(absl::StrFormat(
                 "%s runs in epoch %d already; a second one was started on host %s: end the first, "
                 "or start a second job against a server of its own",
                 LabelOfJoin(member), record_.epoch(), refused.request.host())));
}

void Gathering::Drop(const v1::JoinRequest& member, const Status& why, Outbox* out) {
  const Seat seat{member.role(), member.rank()};
  if (const Waiting* waiting = room_.Find(seat);
      waiting != nullptr && waiting->request.incarnation() == member.incarnation()) {
    out->Reply(room_.Remove(seat)->call, why);
  }
  for (Waiting& candidate : candidates_) {
    if (candidate.request.incarnation() == member.incarnation()) {
      out->Reply(std::exchange(candidate.call, 0), why);
    }
  }
}

void Gathering::WasLate(const v1::JoinRequest& member, TimePoint now, Outbox* out) {
  const Duration length = stragglers_.Sentence(member.incarnation(), now);
  if (length <= Seconds(kLateSeconds)) return;
  out->Say("rank_apart",
           absl::StrFormat("%s was late again, and stays apart for %g s: start the job without it, "
                           "or with a longer --straggler-grace",
                           LabelOfJoin(member), ToSeconds(length)),
           LogLevel::kWarning);
}

void Gathering::Stop(const Status& reason, Outbox* out) {
  if (opening_) Abandon(reason, out);
  for (const Waiting& waiting : room_.TakeAll()) out->Reply(waiting.call, reason);
}

void Gathering::Open(bool more, TimePoint now, Outbox* out) {
  if (options_.elastic && SetApart(now, out) && !room_.HasEnough(now)) return;
  candidates_ = room_.TakeWorld(now);
  opening_ = true;
  holders_.clear();
  Propose();
  if (options_.elastic) {
    const Recovery recovery = Recovered();
    const bool any_held = std::any_of(candidates_.begin(), candidates_.end(),
                                      [](const Waiting& w) { return HasPart(w.request); });
    if (!recovery.from_members && more) return AwaitMore(now, out);
    if (!recovery.from_members && any_held) return GiveUp(recovery.why, now, out);
    if (recovery.from_members) {
      proposed_.set_job(record_.job());
      proposed_.set_base_epoch(recovery.base_epoch);
      proposed_.set_base_step(recovery.base_step);
      proposed_.set_origin(record_.origin());
      proposed_.set_from_members(true);
      holders_.assign(recovery.holders.begin(), recovery.holders.end());
      out->Say("job_recovered", absl::StrFormat("the job goes on from step %d: %s",
                                                recovery.base_step, recovery.why));
      return out->Add(action::Persist{proposed_});
    }
  }
  const v1::JoinRequest& first = FirstOf(candidates_).request;
  if (first.resume()) {
    out->Add(action::FindBase{
        first.job(), FurtherStores(proposed_.members(), std::numeric_limits<size_t>::max())});
  } else {
    out->Add(action::Persist{proposed_});
  }
}

bool Gathering::SetApart(TimePoint now, Outbox* out) {
  const std::vector<Waiting*> members = room_.Members();
  if (!HearComplaints(members, now)) return false;
  std::vector<uint64_t> incarnations;
  for (const Waiting* member : members) incarnations.push_back(member->request.incarnation());
  const CutOffs::Verdict verdict = cut_offs_.Judge(incarnations, now);
  for (Waiting* member : members) {
    member->apart_until = ApartUntil(member->request.incarnation());
  }
  for (const auto& [member, length] : verdict.sentences) {
    out->Say("rank_apart",
             absl::StrFormat("%s stays apart for %g s: the data plane between it and others does "
                             "not work; look at its network",
                             LabelOfJoin(members[member]->request), ToSeconds(length)),
             LogLevel::kWarning);
  }
  return !verdict.apart.empty();
}

// What a member says counts once, however often its world is looked at.
bool Gathering::HearComplaints(const std::vector<Waiting*>& members, TimePoint now) {
  bool any = false;
  for (Waiting* member : members) {
    if (!member->request.has_held()) continue;
    v1::Held* held = member->request.mutable_held();
    if (held->epoch() == record_.epoch() && held->round() > record_.base_step()) cut_offs_.Worked();
    for (const uint32_t node : held->silent()) {
      any |= cut_offs_.Hear(member->request.incarnation(), held->epoch(), node, now);
    }
    held->clear_silent();
  }
  return any;
}

// Workers come first in the candidates, so that an index is a node.
Recovery Gathering::Recovered() const {
  std::vector<Returned> workers;
  for (const Waiting& candidate : candidates_) {
    const v1::JoinRequest& request = candidate.request;
    if (request.role() != v1::ROLE_WORKER) continue;
    Returned worker{WasMember(record_, request, options_), std::nullopt};
    if (request.has_held()) worker.held = request.held();
    workers.push_back(std::move(worker));
  }
  return Recover(record_, workers);
}

// Those that have the state are silent, and may be stopped or cut off for a while: a step is lost
// only where they do not come back.
void Gathering::AwaitMore(TimePoint now, Outbox* out) {
  opening_ = false;
  again_ = now + Seconds(kAgainSeconds);
  awaits_more_ = true;
  out->Say("state_awaited",
           "nobody that has joined again has the state of the job; silent members may have it");
  for (Waiting& candidate : std::exchange(candidates_, {})) {
    const TimePoint since = candidate.since;
    PutBack(std::move(candidate), since, out);
  }
}

// Who has a part of the job has to start again from the checkpoint; the others wait for that.
void Gathering::GiveUp(const std::string& why, TimePoint now, Outbox* out) {
  opening_ = false;
  const Status lost = Unavailable(
      absl::StrFormat("job %016x cannot go on with the processes that are left: %s; it starts "
                      "again from its newest checkpoint",
                      record_.job(), why));
  out->Say("state_lost", Message(lost), LogLevel::kWarning);
  for (Waiting& candidate : std::exchange(candidates_, {})) {
    if (HasPart(candidate.request)) {
      out->Reply(candidate.call, lost);
    } else {
      PutBack(std::move(candidate), now, out);
    }
  }
}

void Gathering::Propose() {
  uint64_t newest = std::max(record_.epoch(), spent_);
  for (const Waiting& candidate : candidates_) {
    newest = std::max(newest, candidate.request.newest_epoch_seen());
  }
  const auto fresh = std::find_if(candidates_.begin(), candidates_.end(),
                                  [](const Waiting& waiting) { return waiting.fresh_job != 0; });
  const v1::JoinRequest& first = FirstOf(candidates_).request;
  proposed_.Clear();
  proposed_.set_epoch(newest + 1);
  proposed_.set_world(static_cast<uint32_t>(
      std::count_if(candidates_.begin(), candidates_.end(),
                    [](const Waiting& w) { return w.request.role() == v1::ROLE_WORKER; })));
  proposed_.set_elastic(options_.elastic);
  proposed_.set_origin(proposed_.epoch());
  proposed_.set_job(first.job() != 0             ? first.job()
                    : fresh != candidates_.end() ? fresh->fresh_job
                                                 : 0);
  for (const Waiting& candidate : candidates_) {
    v1::RecordedMember* recorded = proposed_.add_members();
    recorded->set_role(candidate.request.role());
    recorded->set_rank(candidate.request.rank());
    recorded->set_host(candidate.request.host());
    recorded->set_incarnation(candidate.request.incarnation());
    recorded->set_store_address(candidate.request.store_address());
  }
}

void Gathering::BaseFound(const event::BaseFound& found, Outbox* out) {
  if (!opening_) return;
  if (!found.base.ok()) return Abandon(found.base.status(), out);
  if (const auto& base = *found.base) {
    proposed_.set_job(base->job);
    proposed_.set_base_epoch(base->epoch);
    proposed_.set_base_step(base->step + base->logged_steps);
    proposed_.set_logged_steps(base->logged_steps);
    proposed_.set_epoch(std::max(proposed_.epoch(), base->epoch + 1));
    proposed_.set_origin(proposed_.epoch());
    if (base->world != proposed_.world()) {
      out->Say("resume_resized", absl::StrFormat("resuming %d workers from a checkpoint of %d",
                                                 proposed_.world(), base->world));
    }
  } else if (const v1::JoinRequest& first = FirstOf(candidates_).request; !first.or_start()) {
    const std::string whose =
        first.job() == 0 ? "any job" : absl::StrFormat("job %016x", first.job());
    return Abandon(NotFound("resume: there is no complete checkpoint of " + whose +
                            ": is --store the right one (ringwood checkpoint list --store DIR)? "
                            "--resume=auto starts a new job where there is nothing to continue"),
                   out);
  }
  out->Add(action::Persist{proposed_});
}

void Gathering::Abandon(const Status& why, Outbox* out) {
  opening_ = false;
  for (const Waiting& candidate : std::exchange(candidates_, {})) out->Reply(candidate.call, why);
}

std::optional<GatheredWorld> Gathering::Persisted(const Status& status, TimePoint now,
                                                  Outbox* out) {
  if (!opening_) return std::nullopt;
  if (!status.ok()) {
    NotKept(Annotate(status, "the coordinator cannot keep its epoch"), now, out);
    return std::nullopt;
  }
  opening_ = false;
  record_ = proposed_;
  std::vector<Waiting> candidates = std::exchange(candidates_, {});
  const bool all_wait = std::all_of(candidates.begin(), candidates.end(),
                                    [](const Waiting& waiting) { return waiting.call != 0; });
  if (all_wait) {
    GatheredWorld world{record_, {}, {}, holders_};
    std::vector<uint64_t> incarnations;
    for (Waiting& candidate : candidates) {
      incarnations.push_back(candidate.request.incarnation());
      world.members.push_back(std::move(candidate.request));
      world.calls.push_back(candidate.call);
    }
    cut_offs_.Begin(record_.epoch(), std::move(incarnations));
    return world;
  }
  for (Waiting& candidate : candidates) {
    candidate.fresh_job = record_.job();
    PutBack(std::move(candidate), now, out);
  }
  return std::nullopt;
}

// Those who have an elastic job wait for a disk that works as long as they wait for each other. It
// may have kept the record all the same, so the number is spent.
void Gathering::NotKept(const Status& why, TimePoint now, Outbox* out) {
  if (!proposed_.from_members()) return Abandon(why, out);
  opening_ = false;
  spent_ = proposed_.epoch();
  again_ = now + Seconds(kAgainSeconds);
  out->Say("epoch_retried", Message(why) + ": it is tried again", LogLevel::kWarning);
  for (Waiting& candidate : std::exchange(candidates_, {})) {
    const TimePoint since = candidate.since;
    PutBack(std::move(candidate), since, out);
  }
}

// A candidate whose world does not begin waits for the next one.
void Gathering::PutBack(Waiting waiting, TimePoint since, Outbox* out) {
  if (waiting.call == 0) return;
  const v1::JoinRequest& request = waiting.request;
  if (room_.Find({request.role(), request.rank()}) != nullptr) {
    out->Reply(waiting.call,
               AlreadyExists(LabelOfJoin(request) + " was started again, the newest wins"));
    return;
  }
  waiting.since = since;
  room_.Add(std::move(waiting));
}

}  // namespace ringwood
