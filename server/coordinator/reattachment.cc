#include "server/coordinator/reattachment.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace ringwood {
namespace {

constexpr size_t kMostAway = 8;      // names in a line
constexpr size_t kMaxReason = 1024;  // characters of a reason to leave

bool HasTrees(const v1::Plan& plan) {
  return std::any_of(plan.groups().begin(), plan.groups().end(),
                     [](const v1::Group& group) { return group.route() == "tree"; });
}

}  // namespace

Reattachment::Reattachment(const MembershipOptions& options, v1::EpochRecord record, TimePoint now)
    : options_(options),
      record_(std::move(record)),
      until_(now + Seconds(options.reattach_grace_seconds)),
      members_(static_cast<size_t>(record_.members_size())) {
  const OwnReducer& own = options_.own_reducer;
  for (size_t node = 0; node < members_.size(); ++node) {
    const v1::RecordedMember& member = record_.members(static_cast<int>(node));
    const bool mine =
        own.incarnation != 0 && member.role() == v1::ROLE_REDUCER && member.rank() == own.index;
    if (mine) members_[node].place = Place::kUnused;
  }
}

bool Reattachment::Is(uint32_t node, uint64_t incarnation) const {
  return node < members_.size() && options_.hash &&
         record_.members(static_cast<int>(node)).incarnation_hash() == options_.hash(incarnation);
}

std::string Reattachment::Label(size_t node) const {
  const v1::RecordedMember& member = record_.members(static_cast<int>(node));
  return MemberLabel(member.role(), member.rank(), member.host());
}

void Reattachment::Add(CallId call, const v1::ReattachRequest& request, Outbox* out) {
  const uint32_t node = request.node();
  const v1::JoinRequest& joined = request.joined();
  const bool known = request.epoch() == record_.epoch() && Is(node, request.incarnation()) &&
                     joined.incarnation() == request.incarnation() &&
                     joined.role() == record_.members(static_cast<int>(node)).role() &&
                     joined.rank() == record_.members(static_cast<int>(node)).rank();
  if (!known || over_ || members_[node].place == Place::kGone) {
    return out->Reply(call,
                      Aborted(absl::StrFormat("epoch %d is over%s: join again", request.epoch(),
                                              over_ ? " (" + why_ + ")" : "")));
  }
  Member& member = members_[node];
  out->Reply(std::exchange(member.call, call), Aborted("this member came back again"));
  member.place = Place::kBack;
  member.request = request;
}

bool Reattachment::CallGone(CallId call, Outbox* out) {
  for (Member& member : members_) {
    if (member.call != call) continue;
    member.call = 0;
    if (member.place == Place::kBack) member = Member();
    out->Reply(call, Aborted("the caller went away"));
    return true;
  }
  return false;
}

bool Reattachment::Leave(const v1::LeaveRequest& request) {
  if (request.epoch() != record_.epoch() || !Is(request.node(), request.incarnation())) {
    return false;
  }
  Member& member = members_[request.node()];
  member.place = request.failed() || !IsWorker(request.node()) ? Place::kGone : Place::kLeft;
  if (member.place == Place::kGone) {
    why_ = Label(request.node()) + " failed: " +
           (request.reason().empty() ? "it gave up" : Printable(request.reason(), kMaxReason));
  }
  return true;
}

void Reattachment::Join(const v1::JoinRequest& request) {
  for (size_t node = 0; node < members_.size(); ++node) {
    const v1::RecordedMember& member = record_.members(static_cast<int>(node));
    if (member.role() != request.role() || member.rank() != request.rank()) continue;
    if (members_[node].place == Place::kUnused) return;
    members_[node].place = Place::kGone;
    if (!why_.empty()) return;
    why_ = Label(node) + (Is(static_cast<uint32_t>(node), request.incarnation())
                              ? " joined again"
                              : " was started again");
  }
}

void Reattachment::Tick(TimePoint now) {
  if (now <= until_ || !why_.empty()) return;
  why_ = absl::StrFormat("not all came back within %g s (--reattach-grace): %s",
                         options_.reattach_grace_seconds, Progress());
}

bool Reattachment::Complete() const {
  const auto settled = [](const Member& member) {
    return member.place != Place::kAway && member.place != Place::kGone;
  };
  return !over_ && why_.empty() && std::all_of(members_.begin(), members_.end(), settled) &&
         !AllLeft();
}

bool Reattachment::AllLeft() const {
  return std::all_of(members_.begin(), members_.begin() + record_.world(),
                     [](const Member& member) { return member.place == Place::kLeft; });
}

// Of one that is not back only what is on disk.
v1::JoinRequest Reattachment::JoinOf(size_t node) const {
  if (members_[node].place == Place::kBack) return members_[node].request.joined();
  const v1::RecordedMember& member = record_.members(static_cast<int>(node));
  v1::JoinRequest request;
  request.set_role(member.role());
  request.set_rank(member.rank());
  request.set_host(member.host());
  return request;
}

StatusOr<Committed> Reattachment::LastCommit() const {
  Committed last{record_.base_step(), {}};
  for (size_t node = 0; node < record_.world(); ++node) {
    const v1::ReattachRequest& request = members_[node].request;
    if (members_[node].place != Place::kBack || request.round() <= last.round) continue;
    if (request.last().round() != request.round() || request.last().epoch() != record_.epoch()) {
      return Internal(
          absl::StrFormat("%s has round %d without its commit", Label(node), request.round()));
    }
    last = {request.round(), request.last()};
  }
  for (size_t node = 0; node < record_.world(); ++node) {
    const uint64_t round = members_[node].request.round();
    if (members_[node].place != Place::kBack || round == last.round) continue;
    if (round + 1 == last.round && last.commit.round() == last.round) continue;
    return Internal(
        absl::StrFormat("%s has round %d, others have round %d", Label(node), round, last.round));
  }
  return last;
}

StatusOr<std::optional<v1::AgreeRequest>> Reattachment::Table(uint32_t* generation) const {
  std::optional<v1::AgreeRequest> table;
  for (size_t node = 0; node < record_.world(); ++node) {
    const v1::ReattachRequest& request = members_[node].request;
    if (members_[node].place != Place::kBack || !request.has_table()) continue;
    if (table && request.generation() <= *generation) continue;
    RW_RETURN_IF_ERROR(
        Annotate(CheckPlan(request.table().plan(), request.table().tensors()), Label(node)));
    table = request.table();
    *generation = request.generation();
  }
  return table;
}

StatusOr<Restored> Reattachment::Restore() const {
  Restored restored;
  restored.record = record_;
  RW_ASSIGN_OR_RETURN(restored.committed, LastCommit());
  RW_ASSIGN_OR_RETURN(restored.table, Table(&restored.generation));
  for (size_t node = 0; node < members_.size(); ++node) {
    const Member& member = members_[node];
    if (member.place == Place::kUnused && restored.table && HasTrees(restored.table->plan())) {
      return Unavailable("the reducer of the coordinator's own process died with it");
    }
    restored.members.push_back(JoinOf(node));
    restored.record.mutable_members(static_cast<int>(node))
        ->set_incarnation(restored.members.back().incarnation());
    if (member.place != Place::kBack) restored.left.push_back(static_cast<uint32_t>(node));
    if (!IsWorker(node) || member.place != Place::kBack || member.request.has_table()) continue;
    restored.without_plan.push_back(static_cast<uint32_t>(node));
  }
  return restored;
}

void Reattachment::Release(Outbox* out) {
  for (Member& member : members_) {
    out->Reply(std::exchange(member.call, 0), v1::ReattachResponse());
  }
}

void Reattachment::End(TimePoint now, const std::string& why, Outbox* out) {
  over_ = true;
  over_since_ = now;
  why_ = why;
  out->Say("epoch_given_up", absl::StrFormat("epoch %d is over: %s", record_.epoch(), why_));
  for (Member& member : members_) {
    out->Reply(
        std::exchange(member.call, 0),
        Aborted(absl::StrFormat("epoch %d is over (%s): join again", record_.epoch(), why_)));
  }
}

// A member without a stream may be dead: who came back has the failure timeout, who did not the
// rest of the grace, and so has the successor of the own reducer.
std::vector<Awaited> Reattachment::AwaitedBy(TimePoint now) const {
  std::vector<Awaited> awaited;
  for (size_t node = 0; over_ && node < members_.size(); ++node) {
    const Member& member = members_[node];
    const bool back = member.place == Place::kBack &&
                      now - over_since_ <= Seconds(options_.failure_timeout_seconds);
    if (!back && !(member.place == Place::kAway && now <= until_)) continue;
    const v1::RecordedMember& recorded = record_.members(static_cast<int>(node));
    awaited.push_back({{recorded.role(), recorded.rank()}, member.request.incarnation()});
  }
  return awaited;
}

std::string Reattachment::Progress() const {
  std::vector<std::string> away;
  for (size_t node = 0; node < members_.size(); ++node) {
    if (members_[node].place == Place::kAway) away.push_back(Label(node));
  }
  const size_t missing = away.size();
  if (missing > kMostAway) {
    away.resize(kMostAway);
    away.push_back(absl::StrFormat("%d more", missing - kMostAway));
  }
  return absl::StrFormat("%d of %d members are back%s", members_.size() - missing, members_.size(),
                         away.empty() ? "" : ", waiting for " + absl::StrJoin(away, ", "));
}

}  // namespace ringwood
