#include "server/coordinator/gathering/gathering.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/strings/str_format.h"
#include "server/coordinator/gathering/candidates.h"
#include "server/coordinator/gathering/join_rules.h"

namespace ringwood {
namespace {

// Lines about refused joins: so many in such a time, of the others their number.
constexpr uint64_t kMostRefusals = 8;
constexpr double kRefusalSeconds = 10;

constexpr double kAgainSeconds = 1;  // until a disk that failed, or the room, is looked at again
constexpr double kQuietSeconds = 3;  // until it is told the first time who is missing
constexpr double kLateSeconds = 1;   // that a straggler stays apart the first time

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

void Gathering::Join(const event::Join& join, TimePoint now, Outbox* out) {
  const v1::JoinRequest& request = join.request;
  Status admitted = CheckJoin(request, record_, options_);
  if (admitted.ok()) admitted = room_.Admit(request);
  if (!admitted.ok()) {
    SayRefused(Message(admitted), now, out);
    return out->Reply(join.call, admitted);
  }
  if (std::exchange(awaits_more_, false)) again_ = {};
  const Status seen = CheckEpochSeen(request, std::max(record_.epoch(), proposed_.epoch()));
  if (!seen.ok()) return out->Reply(join.call, seen);
  const auto displaced =
      room_.Add({join.call, request, now, join.fresh_job, ApartUntil(request.incarnation())});
  Moved(now);
  if (!displaced) return;
  const bool same = displaced->request.incarnation() == request.incarnation();
  const std::string who = LabelOfJoin(request);
  out->Reply(displaced->call,
             same ? Aborted(who + " asked to join again")
                  : AlreadyExists(absl::StrFormat(
                        "%s was started again, as %s, and the newest wins: start each rank once",
                        LabelOfJoin(displaced->request), who)));
}

void Gathering::Moved(TimePoint now) {
  moved_ = now;
  tell_ = now + Seconds(kQuietSeconds);
}

void Gathering::TellAwaited(TimePoint now, Outbox* out) {
  if (options_.elastic || now < tell_) return;
  std::vector<uint32_t> missing = room_.MissingRanks();
  if (missing.empty()) return;
  tell_ = now + (now - moved_);
  out->Add(action::Await{std::move(missing)});
}

bool Gathering::CallGone(CallId call, TimePoint now, Outbox* out) {
  bool held = room_.Remove(call).has_value();
  if (held) Moved(now);
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
  const std::string missing = room_.Missing(awaited, now);  // who is late with others did join
  for (const Waiting& late : room_.TakeOverdue(now, options_.join_timeout_seconds)) {
    out->Reply(
        late.call,
        TimedOut(absl::StrFormat(
            "%s waited %g s to join: %s", LabelOfJoin(late.request),
            std::round(WaitingRoom::PatienceOf(late, options_.join_timeout_seconds) * 100) / 100,
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
                 "or start the second as another job: with a server of its own, or in a service "
                 "with a token of its own (`ringwood token job NAME`)",
                 LabelOfJoin(member), record_.epoch(), refused.request.host())));
}

bool Gathering::HasSuccessor(const v1::JoinRequest& member, TimePoint since) const {
  const Waiting* const other = room_.Find({member.role(), member.rank()});
  return other != nullptr && other->request.incarnation() != member.incarnation() &&
         other->since <= since;
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

void Gathering::DropMembers(const Status& why, Outbox* out) {
  std::vector<CallId> calls;
  for (const Waiting* waiting : room_.Members()) {
    if (HasPart(waiting->request)) calls.push_back(waiting->call);
  }
  for (const CallId call : calls) {
    room_.Remove(call);
    out->Reply(call, why);
  }
}

void Gathering::Open(bool more, TimePoint now, Outbox* out) {
  if (options_.elastic && SetApart(now, out) && !room_.HasEnough(now)) return;
  candidates_ = room_.TakeWorld(now);
  opening_ = true;
  holders_.clear();
  regroups_ = false;
  proposed_ = RecordOf(candidates_, std::max(record_.epoch(), spent_), options_.elastic);
  if (options_.elastic) {
    const Recovery recovery = RecoverFrom(candidates_, record_, options_);
    const bool any_held = std::any_of(candidates_.begin(), candidates_.end(),
                                      [](const Waiting& w) { return HasPart(w.request); });
    if (!recovery.from_members && more) return AwaitMore(now, out);
    if (!recovery.from_members && any_held) return GiveUp(recovery.why, now, out);
    if (recovery.from_members) {
      holders_.assign(recovery.holders.begin(), recovery.holders.end());
      KeepCallsTogether(recovery.base_step, out);
      proposed_.set_job(record_.job());
      proposed_.set_base_epoch(recovery.base_epoch);
      proposed_.set_base_step(recovery.base_step);
      proposed_.set_origin(record_.origin());
      proposed_.set_from_members(true);
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

// Those that have the state may make calls before they finish a step, of which a process that comes
// knows nothing: it takes part from there on. A member that finishes one says that no call follows.
void Gathering::KeepCallsTogether(uint64_t base_step, Outbox* out) {
  const auto has_base = [&](uint32_t node) {
    return candidates_[node].request.held().round() == base_step;
  };
  const bool finishes = std::any_of(holders_.begin(), holders_.end(), [&](uint32_t node) {
    return has_base(node) && !candidates_[node].request.held().between_steps();
  });
  const bool all_hold = holders_.size() == proposed_.world();
  regroups_ = !finishes && !all_hold;
  if (!regroups_) return;
  std::vector<Waiting> world;
  for (uint32_t node = 0; node < candidates_.size(); ++node) {
    Waiting& candidate = candidates_[node];
    const bool holds = std::find(holders_.begin(), holders_.end(), node) != holders_.end();
    if (holds || candidate.request.role() == v1::ROLE_REDUCER) {
      world.push_back(std::move(candidate));
    } else {
      const TimePoint since = candidate.since;
      PutBack(std::move(candidate), since, out);
    }
  }
  candidates_ = std::move(world);
  std::iota(holders_.begin(), holders_.end(), 0);
  proposed_ = RecordOf(candidates_, std::max(record_.epoch(), spent_), options_.elastic);
}

bool Gathering::SetApart(TimePoint now, Outbox* out) {
  const std::vector<Waiting*> members = room_.Members();
  if (!HearComplaints(members, now)) return false;
  std::vector<CutOffs::Member> suspects;
  for (const Waiting* member : members) {
    suspects.push_back({member->request.incarnation(), member->request.host()});
  }
  const CutOffs::Verdict verdict = cut_offs_.Judge(suspects, now);
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
    if (held->silent().empty()) continue;
    any |= cut_offs_.Hear(member->request.incarnation(), held->epoch(), held->silent(0),
                          held->silent_size() > 1, now);
    held->clear_silent();
  }
  return any;
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
    GatheredWorld world{record_, {}, {}, holders_, regroups_};
    std::vector<uint64_t> incarnations;
    for (Waiting& candidate : candidates) {
      if (cut_offs_.Until(candidate.request.incarnation()) != TimePoint()) {
        world.on_trial.push_back(static_cast<uint32_t>(incarnations.size()));
      }
      incarnations.push_back(candidate.request.incarnation());
      world.members.push_back(std::move(candidate.request));
      world.calls.push_back(candidate.call);
    }
    cut_offs_.Begin(record_.epoch(), std::move(incarnations));
    room_.Begun();
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
