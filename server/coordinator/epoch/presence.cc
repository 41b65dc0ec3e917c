#include "server/coordinator/epoch/presence.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/units.h"

namespace ringwood {
namespace {

constexpr size_t kMostNamed = 8;  // ranks in a line; of more their number

// Failure timeouts until two ranks that wait for each other end the epoch: 16 MiB come through a
// network of 5 Mbit/s in that time.
constexpr double kCrossed = 6;
constexpr char kCalls[] =
    "waits in a call outside of the steps that every rank has to make (allreduce, broadcast, a "
    "checkpoint)";

}  // namespace

Presence::Presence(const MembershipOptions& options, const Roster& roster, uint64_t base_step,
                   bool under_way, TimePoint now)
    : options_(options),
      roster_(roster),
      base_step_(base_step),
      under_way_(under_way),
      members_(roster.size()),
      stalls_(Seconds(options.failure_timeout_seconds),
              Seconds(under_way ? options.failure_timeout_seconds : options.join_timeout_seconds)),
      stragglers_(Seconds(options.elastic ? options.straggler_grace_seconds : 0)) {
  for (Member& member : members_) {
    member.heard = now;
    member.step = base_step;
  }
  stalls_.Start(now);
}

StreamId Presence::Heartbeat(uint32_t node, StreamId stream, const v1::Beat& beat, TimePoint now) {
  Member& member = members_[node];
  const StreamId displaced = member.stream != stream ? member.stream : 0;
  member.stream = stream;
  member.heard = now;
  const auto done = std::tuple(beat.step(), beat.progress(), beat.group_calls());
  if (done != std::tie(member.step, member.progress, member.group_calls)) Moved(now);
  std::tie(member.step, member.progress, member.group_calls) = done;
  member.begun = member.begun || beat.begun();
  member.loaded = beat.loaded();
  const auto calls = std::tuple(beat.call(), beat.saves(), beat.saving());
  if (calls != std::tie(member.call, member.saves, member.saving)) member.called = now;
  std::tie(member.call, member.saves, member.saving) = calls;
  member.missing = beat.has_missing() ? std::optional(beat.missing()) : std::nullopt;
  return displaced;
}

std::optional<uint32_t> Presence::Broken(StreamId stream) {
  for (uint32_t node = 0; node < members_.size(); ++node) {
    if (members_[node].stream != stream) continue;
    members_[node].stream = 0;
    return node;
  }
  return std::nullopt;
}

void Presence::Left(uint32_t node, std::optional<uint64_t> saves, TimePoint now) {
  members_[node].left = true;
  members_[node].saves = saves.value_or(std::numeric_limits<uint64_t>::max());
  left_ = now;
}

void Presence::Forgive(Duration gap) {
  for (Member& member : members_) {
    member.heard += gap;
    member.called += gap;
  }
  left_ += gap;
  stalls_.Forgive(gap);
  stragglers_.Forgive(gap);
}

bool Presence::Attends(StreamId stream) const {
  return std::any_of(members_.begin(), members_.end(),
                     [stream](const Member& member) { return member.stream == stream; });
}

std::optional<uint32_t> Presence::FirstLeft() const {
  for (uint32_t rank = 0; rank < roster_.world(); ++rank) {
    if (members_[rank].left) return rank;
  }
  return std::nullopt;
}

bool Presence::AllLeft() const {
  return std::all_of(members_.begin(), members_.begin() + roster_.world(),
                     [](const Member& worker) { return worker.left; });
}

bool Presence::Started(const Standing& standing) const {
  return under_way_ || standing.committed > base_step_ ||
         std::all_of(members_.begin(), members_.begin() + roster_.world(),
                     [](const Member& worker) { return worker.begun; });
}

// A host that starts many processes may let one wait for long: until the first step is taken,
// silence has the join timeout. A stream that breaks is a death from the beginning.
std::optional<Blame> Presence::Silent(const Standing& standing, TimePoint now) const {
  const double limit =
      Started(standing) ? options_.failure_timeout_seconds
                        : std::max(options_.failure_timeout_seconds, options_.join_timeout_seconds);
  for (uint32_t node = 0; node < members_.size(); ++node) {
    const Member& member = members_[node];
    const double silence = ToSeconds(now - member.heard);
    if (member.left || silence <= limit) continue;
    const char* what = member.stream == 0 ? "it joined but never attended," : "silent";
    return Blame{node, StatusCode::kUnavailable, absl::StrFormat("%s for %.1f s", what, silence)};
  }
  return std::nullopt;
}

void Presence::Watch(const Standing& standing, TimePoint now) {
  if (Started(standing)) return;
  for (Member& member : members_) member.heard = now;
}

std::vector<uint32_t> Presence::LoseSilent(TimePoint now) {
  std::vector<uint32_t> silent;
  for (uint32_t node = 0; node < members_.size(); ++node) {
    if (!there(node)) continue;
    if (now - members_[node].heard <= Seconds(options_.failure_timeout_seconds)) continue;
    Lost(node);
    silent.push_back(node);
  }
  return silent;
}

// All leave within moments of each other after the last step. Who still has gradients ready for
// another one then, or waits in a call, would wait for ever.
std::optional<Presence::Leaver> Presence::LeftOthers(const Standing& standing,
                                                     TimePoint now) const {
  const Duration moment = Seconds(options_.failure_timeout_seconds / 2);
  for (uint32_t left = 0; left < roster_.world(); ++left) {
    if (!members_[left].left) continue;
    for (uint32_t rank = 0; rank < roster_.world(); ++rank) {
      if (members_[rank].left) continue;
      if (ReadyInStep(rank, standing) > 0) return Leaver{left};
      if (now - members_[rank].called >= moment && CallsFor(rank, left, standing)) {
        return Leaver{left, absl::StrFormat("while %s %s", roster_.Label(rank), kCalls)};
      }
    }
  }
  return std::nullopt;
}

// Told before a broken connection is taken for a death.
std::optional<Presence::Leaver> Presence::EndedEarly(const Standing& standing,
                                                     TimePoint now) const {
  if (now - left_ < Seconds(options_.failure_timeout_seconds / 2)) return std::nullopt;
  return LeftOthers(standing, now);
}

bool Presence::Calls(uint32_t rank, const Standing& standing) const {
  const Member& member = members_[rank];
  return (member.call != 0 || member.saving) && !member.left && member.step == standing.committed &&
         ReadyInStep(rank, standing) == 0;
}

// A checkpoint that both have begun comes to its end by itself. Who missed one, as its state did
// not fit into memory, has begun fewer from then on.
bool Presence::CallsFor(uint32_t rank, uint32_t other, const Standing& standing) const {
  if (!Calls(rank, standing)) return false;
  const Member& member = members_[rank];
  const uint64_t saves = members_[other].saves;
  return member.call != 0 || (members_[other].left ? saves < member.saves : saves == 0);
}

// For the plan, or the other ranks' gradients.
bool Presence::WaitsInStep(uint32_t rank, const Standing& standing) const {
  if (!standing.tensors) return !IsMissing(rank, standing);
  return *standing.tensors > 0 && ReadyInStep(rank, standing) == *standing.tensors;
}

// In an elastic job another epoch begins, with which the call ends.
std::optional<Blame> Presence::Crossed(const Standing& standing, TimePoint now) const {
  const Duration limit = Seconds(kCrossed * options_.failure_timeout_seconds);
  if (stalls_.Still(now) < limit) return std::nullopt;
  for (uint32_t calls = 0; calls < roster_.world(); ++calls) {
    if (now - members_[calls].called < limit) continue;
    for (uint32_t steps = 0; steps < roster_.world(); ++steps) {
      const Member& other = members_[steps];
      if (other.call != 0 || other.saving || now - other.called < limit ||
          !WaitsInStep(steps, standing) || !CallsFor(calls, steps, standing)) {
        continue;
      }
      return Blame{calls,
                   options_.elastic ? StatusCode::kUnavailable : StatusCode::kFailedPrecondition,
                   absl::StrFormat("it %s, while %s waits for it in step %d: make the call on "
                                   "every rank, after the same step (is it under `if rank == 0`?), "
                                   "and take the same number of steps on all",
                                   kCalls, roster_.Label(steps), standing.committed + 1)};
    }
  }
  return std::nullopt;
}

std::optional<Presence::Stall> Presence::LookForStall(const Standing& standing, TimePoint now) {
  std::optional<Duration> due;
  if (!FirstLeft()) due = stalls_.Due(SomeWait(standing), now);  // else no step follows
  const double still = ToSeconds(stalls_.Still(now));
  const double limit = options_.stall_timeout_seconds;
  const bool over = limit > 0 && still > limit;
  if (!due && !over) return std::nullopt;
  const Held held = WhoHolds(standing);
  const std::optional<Duration> median = stalls_.MedianStep();
  Stall stall;
  if (OnlyCallsGroups(standing)) {
    stall.text = absl::StrFormat(
        "no call of a process group has ended for %.1f s: does every rank make it?", still);
  } else {
    stall.text = absl::StrFormat(
        "step %d has stood still for %.1f s%s: %s", standing.committed + 1, still,
        median ? " (a step takes " + FormatSeconds(ToSeconds(*median)) + ")" : "", held.text);
  }
  if (over) {
    stall.blame = Blame{held.ranks.size() == 1 ? held.ranks[0] : roster_.size(),
                        StatusCode::kDeadlineExceeded,
                        absl::StrFormat("%s (--stall-timeout %g)", stall.text, limit)};
  }
  return stall;
}

// Without a vote who is ready is known from heartbeats, which do not come from one that is stopped.
std::optional<Blame> Presence::Late(const Standing& standing, TimePoint now) {
  if (!standing.tensors) return std::nullopt;
  const Duration grace = Seconds(options_.straggler_grace_seconds);
  std::vector<StragglerWatch::Worker> workers(roster_.world());
  for (uint32_t rank = 0; rank < roster_.world(); ++rank) {
    const bool all = ReadyInStep(rank, standing) == *standing.tensors;
    workers[rank].ready =
        standing.voting ? !IsMissing(rank, standing) : all && now - members_[rank].heard <= grace;
  }
  for (const uint32_t rank : standing.newcomers) workers[rank].exempt = true;
  const uint32_t least = static_cast<uint32_t>(options_.min_world);
  std::vector<uint32_t> late = stragglers_.Late(standing.committed + 1, workers, least, now);
  if (late.empty()) return std::nullopt;
  std::vector<std::string> who;
  for (size_t i = 0; i < std::min(late.size(), kMostNamed); ++i) {
    who.push_back(absl::StrFormat("%s%s", late.size() == 1 ? "" : roster_.Label(late[i]) + ": ",
                                  WhatHolds(late[i], standing, now)));
  }
  if (late.size() > kMostNamed) {
    who.push_back(absl::StrFormat("%d more", late.size() - kMostNamed));
  }
  return Blame{late.size() == 1 ? late[0] : roster_.size(), StatusCode::kUnavailable,
               absl::StrFormat("late, the others waited for %s (--straggler-grace %g): %s",
                               FormatSeconds(ToSeconds(stragglers_.Waited(now))),
                               options_.straggler_grace_seconds, absl::StrJoin(who, "; ")),
               false, std::move(late)};
}

bool Presence::IsMissing(uint32_t rank, const Standing& standing) const {
  return std::find(standing.missing.begin(), standing.missing.end(), rank) !=
         standing.missing.end();
}

std::string Presence::WhatHolds(uint32_t rank, const Standing& standing, TimePoint now) const {
  const Member& member = members_[rank];
  const uint64_t ready = ReadyInStep(rank, standing);
  const double silence = ToSeconds(now - member.heard);
  if (silence > options_.straggler_grace_seconds) {
    return absl::StrFormat("its process, host or network stands still (no heartbeat for %s)",
                           FormatSeconds(silence));
  }
  if (ready == *standing.tensors) {
    return "its gradients are ready, but its vote does not come (network, or the work before "
           "finish_step)";
  }
  if (ready == 0 && member.loaded == 0) return "before its first gradient (data, or computation)";
  if (ready == 0 && member.loaded <= standing.committed) return "its data is not there (loader)";
  return "computation, " + Gradients(rank, standing);
}

std::string Presence::Gradients(uint32_t rank, const Standing& standing) const {
  const uint64_t ready = ReadyInStep(rank, standing);
  const std::optional<uint32_t> missing = members_[rank].missing;
  std::string text = absl::StrFormat("%d of %d gradients ready", ready, *standing.tensors);
  if (ready > 0 && ready < *standing.tensors && missing && *missing < *standing.tensors) {
    absl::StrAppendFormat(&text, ", not that of '%s'", standing.name(*missing));
  }
  return text;
}

bool Presence::OnlyCallsGroups(const Standing& standing) const {
  return !standing.tensors && standing.missing.size() == roster_.world() &&
         std::ranges::any_of(members_, [](const Member& each) { return each.group_calls > 0; });
}

bool Presence::SomeWait(const Standing& standing) const {
  if (standing.voting) return true;
  const auto [low, high] =
      std::minmax_element(members_.begin(), members_.begin() + roster_.world(),
                          [](const Member& a, const Member& b) { return a.progress < b.progress; });
  return low->progress < high->progress;
}

uint64_t Presence::ReadyInStep(uint32_t rank, const Standing& standing) const {
  if (!standing.tensors) return 0;
  const uint64_t progress = members_[rank].progress;
  const uint64_t before = (standing.committed - base_step_) * *standing.tensors;
  return progress > before ? std::min(progress - before, *standing.tensors) : 0;
}

Presence::Held Presence::WhoHolds(const Standing& standing) const {
  if (OnlyCallsGroups(standing))
    return {{}, "its ranks call process groups and register no tensors"};
  std::vector<uint32_t> ranks = standing.missing;
  // Of those, who is behind the others.
  const auto less = [this](uint32_t a, uint32_t b) {
    return members_[a].progress < members_[b].progress;
  };
  const bool all = ranks.size() == roster_.world();
  uint64_t least = 0;
  if (!ranks.empty()) {
    const auto [low, high] = std::minmax_element(ranks.begin(), ranks.end(), less);
    least = members_[*low].progress;
    if (all && least == members_[*high].progress && standing.tensors &&
        ReadyInStep(*low, standing) == *standing.tensors) {
      return {{},
              "every rank has its gradients ready, none has the result: look at the network "
              "between the hosts"};
    }
  }
  std::erase_if(ranks, [&](uint32_t rank) { return members_[rank].progress > least; });
  std::vector<std::string> names;
  for (size_t i = 0; i < ranks.size() && i < kMostNamed; ++i) {
    names.push_back(roster_.Label(ranks[i]));
  }
  if (ranks.size() > kMostNamed) {
    names.push_back(absl::StrFormat("%d more", ranks.size() - kMostNamed));
  }
  std::string text = "waiting for " + absl::StrJoin(names, ", ");
  if (ranks.empty()) return {ranks, text};
  text += standing.tensors ? ", " + Gradients(ranks[0], standing) : " to register its tensors";
  const auto calls =
      std::ranges::find_if(ranks, [&](uint32_t rank) { return Calls(rank, standing); });
  if (calls != ranks.end()) absl::StrAppendFormat(&text, "; %s %s", roster_.Label(*calls), kCalls);
  return {ranks, text};
}

}  // namespace ringwood
