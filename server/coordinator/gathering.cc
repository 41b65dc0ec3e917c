#include "server/coordinator/gathering.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/text.h"

namespace ringwood {
namespace {

// A member may have seen epochs that a coordinator without its disk has forgotten; a number further
// ahead than this is not from a job of this coordinator.
constexpr uint64_t kMaxEpochsAhead = 1u << 20;

// Of what a stranger may send, and everyone else is told.
constexpr size_t kMaxHostBytes = 255;
constexpr size_t kMaxAddressBytes = 16 << 10;
// Lines about refused joins: so many in such a time, of the others their number.
constexpr uint64_t kMostRefusals = 8;
constexpr double kRefusalSeconds = 10;

std::string LabelOfJoin(const v1::JoinRequest& request) {
  return MemberLabel(request.role(), request.rank(), request.host());
}

}  // namespace

Gathering::Gathering(const MembershipOptions& options, v1::EpochRecord recovered)
    : options_(options), record_(std::move(recovered)), room_(options.servers) {
  record_.clear_members();  // they live only in the memory of the coordinator that saw them join
  record_.set_world(0);
}

void Gathering::SayRefused(const std::string& why, TimePoint now, Outbox* out) {
  if (now - refusals_since_ > Seconds(kRefusalSeconds)) {
    if (refusals_ > kMostRefusals) {
      out->Say(absl::StrFormat("%d more joins were refused", refusals_ - kMostRefusals));
    }
    refusals_since_ = now;
    refusals_ = 0;
  }
  if (++refusals_ <= kMostRefusals) out->Say("refused: " + why);
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

void Gathering::Join(const event::Join& join, TimePoint now, Outbox* out) {
  const v1::JoinRequest& request = join.request;
  if (Status admitted = Admit(request); !admitted.ok()) {
    SayRefused(Message(admitted), now, out);
    return out->Reply(join.call, admitted);
  }
  const uint64_t floor = std::max(record_.epoch(), proposed_.epoch());
  if (request.newest_epoch_seen() > floor + kMaxEpochsAhead) {
    return out->Reply(join.call, Invalid(absl::StrFormat(
                                     "%s has seen epoch %d, this server is at %d: it "
                                     "belongs to another job",
                                     LabelOfJoin(request), request.newest_epoch_seen(), floor)));
  }
  const auto displaced = room_.Add({join.call, request, now, join.fresh_job});
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

void Gathering::RefuseOverdue(TimePoint now, bool busy, Outbox* out) {
  for (const Waiting& late : room_.TakeOverdue(now, options_.join_timeout_seconds)) {
    room_.Add(late);  // so that Missing() speaks of the world as it is for everyone
    const std::string missing = room_.Missing();
    room_.Remove(late.call);
    out->Reply(
        late.call,
        TimedOut(absl::StrFormat(
            "%s waited %g s to join: %s", LabelOfJoin(late.request),
            WaitingRoom::PatienceOf(late, options_.join_timeout_seconds),
            busy ? "another job runs on this server; wait for its end or start a second server"
                 : missing + " did not join; look at their output, or raise --join-timeout")));
  }
}

void Gathering::RefuseTwin(const v1::JoinRequest& member, TimePoint now, Outbox* out) {
  const WaitingRoom::Seat seat{member.role(), member.rank()};
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

void Gathering::Stop(const Status& reason, Outbox* out) {
  if (opening_) Abandon(reason, out);
  for (const Waiting& waiting : room_.TakeAll()) out->Reply(waiting.call, reason);
}

void Gathering::Open(Outbox* out) {
  opening_ = true;
  // In order of (role, rank), and a worker's role is the smaller number: node order.
  candidates_ = room_.TakeAll();
  Propose();
  const v1::JoinRequest& first = candidates_.front().request;
  if (first.resume()) {
    out->Add(action::FindBase{first.job()});
  } else {
    out->Add(action::Persist{proposed_});
  }
}

void Gathering::Propose() {
  uint64_t newest = record_.epoch();
  for (const Waiting& candidate : candidates_) {
    newest = std::max(newest, candidate.request.newest_epoch_seen());
  }
  const auto fresh = std::find_if(candidates_.begin(), candidates_.end(),
                                  [](const Waiting& waiting) { return waiting.fresh_job != 0; });
  const v1::JoinRequest& first = candidates_.front().request;
  proposed_.Clear();
  proposed_.set_epoch(newest + 1);
  proposed_.set_world(first.world());
  proposed_.set_job(first.job() != 0             ? first.job()
                    : fresh != candidates_.end() ? fresh->fresh_job
                                                 : 0);
  for (const Waiting& candidate : candidates_) {
    v1::RecordedMember* recorded = proposed_.add_members();
    recorded->set_role(candidate.request.role());
    recorded->set_rank(candidate.request.rank());
    recorded->set_host(candidate.request.host());
    recorded->set_incarnation(candidate.request.incarnation());
  }
}

void Gathering::BaseFound(const event::BaseFound& found, Outbox* out) {
  if (!opening_) return;
  if (!found.base.ok()) return Abandon(found.base.status(), out);
  if (const auto& base = *found.base) {
    proposed_.set_job(base->job);
    proposed_.set_base_epoch(base->epoch);
    proposed_.set_base_step(base->step);
    proposed_.set_epoch(std::max(proposed_.epoch(), base->epoch + 1));
    if (base->world != proposed_.world()) {
      out->Say(absl::StrFormat("resuming %d workers from a checkpoint of %d", proposed_.world(),
                               base->world));
    }
  } else if (const v1::JoinRequest& first = candidates_.front().request; !first.or_start()) {
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
    Abandon(Annotate(status, "the coordinator cannot keep its epoch"), out);
    return std::nullopt;
  }
  opening_ = false;
  record_ = proposed_;
  std::vector<Waiting> candidates = std::exchange(candidates_, {});
  const bool all_wait = std::all_of(candidates.begin(), candidates.end(),
                                    [](const Waiting& waiting) { return waiting.call != 0; });
  if (all_wait) {
    GatheredWorld world{record_, {}, {}};
    for (Waiting& candidate : candidates) {
      world.members.push_back(std::move(candidate.request));
      world.calls.push_back(candidate.call);
    }
    return world;
  }
  for (Waiting& candidate : candidates) {
    if (candidate.call == 0) continue;
    const v1::JoinRequest& request = candidate.request;
    if (room_.Find({request.role(), request.rank()}) != nullptr) {
      out->Reply(candidate.call,
                 AlreadyExists(LabelOfJoin(request) + " was started again, the newest wins"));
    } else {
      room_.Add({candidate.call, request, now, record_.job()});
    }
  }
  return std::nullopt;
}

}  // namespace ringwood
