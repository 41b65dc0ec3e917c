#include "transport/watch.h"

#include <algorithm>
#include <cstdlib>

#include "absl/strings/str_format.h"

namespace ringwood {
namespace {

constexpr int kAsks = 5;                            // a limit: the peer is asked each fifth of it
constexpr char kSilent[] = "ringwood/silent-node";  // a payload: its number

}  // namespace

Watch::Watch(const WatchLimits& limits, int self, const std::vector<int>& peers, TimePoint now)
    : limits_(limits), self_(self), looked_(now) {
  for (int peer : peers) peers_[peer].heard = now;
}

void Watch::Heard(int peer, TimePoint now) {
  const auto found = peers_.find(peer);
  if (found == peers_.end()) return;
  found->second.heard = now;
  found->second.ever = true;
}

void Watch::Forget(int peer) {
  const auto found = peers_.find(peer);
  if (found == peers_.end()) return;
  if (found->second.ever) departed_ = std::max(departed_, found->second.heard);
  peers_.erase(found);
}

Duration Watch::Quiet(const State& peer, TimePoint now) const {
  return now - std::max(peer.heard, peer.since);
}

bool Watch::Lives(const State& peer, TimePoint now) const {
  return peer.ever && now - peer.heard < limits_.silence / 2;
}

Watch::Decision Watch::Look(TimePoint now, const std::set<int>& awaited) {
  // Time in which this process was stopped does not count as silence. Checks that are only a
  // little late change nothing: a limit has room for several asks.
  const Duration late = now - looked_ - interval();
  looked_ = now;
  const Duration ours = late > limits_.silence / 4 ? late : Duration::zero();
  const Duration pause = limits_.silence / kAsks;
  Decision decision;
  bool suspicion = false;
  for (auto& [node, peer] : peers_) {
    peer.heard = std::min(now, peer.heard + ours);
    peer.since = std::min(now, peer.since + ours);
    if (awaited.count(node) != 0 && !peer.awaited) peer.since = now;
    peer.awaited = awaited.count(node) != 0;
    suspicion |= peer.awaited && peer.ever && Quiet(peer, now) >= limits_.silence / 2;
  }
  for (auto& [node, peer] : peers_) {
    const Duration limit = peer.ever ? limits_.silence : std::max(limits_.silence, limits_.start);
    if (peer.awaited && Quiet(peer, now) >= limit) {
      decision.failed.push_back({node, Alone(node, now), peer.ever});
      continue;
    }
    const bool quiet = peer.awaited ? Quiet(peer, now) >= pause : now - peer.heard >= pause;
    if ((peer.awaited || (suspicion && peer.ever)) && quiet && now - peer.asked >= pause) {
      peer.asked = now;
      decision.ask.push_back(node);
    }
  }
  if (suspicion) AskStrangers(now, &decision);
  for (const Failed& failed : decision.failed) peers_.erase(failed.peer);
  return decision;
}

// A peer that noticed the same silence a moment earlier may have left already; it counts as heard
// until then.
bool Watch::Alone(int failed, TimePoint now) const {
  if (peers_.size() < 2 || now - departed_ < limits_.silence / 2) return false;
  return std::none_of(peers_.begin(), peers_.end(), [&](const auto& entry) {
    return entry.first != failed && Lives(entry.second, now);
  });
}

// Begins with the peers numbered after this node, so that nodes which suspect the same peer ask
// different ones. Each is asked once per limit, and a few at a time: one that has not answered by
// the next turn is no witness.
void Watch::AskStrangers(TimePoint now, Decision* decision) {
  const Duration pause = limits_.silence / kAsks;
  int witnesses = 0;
  for (const auto& [node, peer] : peers_) {
    const bool asked = !peer.ever && !peer.awaited && now - peer.asked < pause;
    witnesses += Lives(peer, now) || asked;
  }
  auto next = peers_.upper_bound(self_);
  for (size_t i = 0; i < peers_.size() && witnesses < kWitnesses; ++i, ++next) {
    if (next == peers_.end()) next = peers_.begin();
    State& peer = next->second;
    if (peer.ever || peer.awaited || now - peer.asked < limits_.silence) continue;
    peer.asked = now;
    decision->ask.push_back(next->first);
    ++witnesses;
  }
}

Status Watch::Reason(const Failed& failed, const std::function<std::string(int)>& label) const {
  const double seconds = ToSeconds(limits_.silence);
  const std::string peer = label(failed.peer);
  if (!failed.connected) {
    const double start = ToSeconds(std::max(limits_.silence, limits_.start));
    return Accusing(TimedOut(absl::StrFormat("%s was not heard on the data plane within %.1f s: "
                                             "does a firewall drop packets to its data port?",
                                             peer, start)),
                    failed.peer);
  }
  if (failed.alone) {
    return Accusing(
        TimedOut(absl::StrFormat("%s hears no peer on the data plane any more, for %.1f s not even "
                                 "%s: its network is cut off",
                                 label(self_), seconds, peer)),
        self_);
  }
  return Accusing(
      TimedOut(absl::StrFormat(
          "%s has not answered on the data plane for %.1f s%s: its network is cut off, or it hangs",
          peer, seconds, peers_.empty() ? "" : " while others did")),
      failed.peer);
}

Status Accusing(Status status, int node) {
  status.SetPayload(kSilent, absl::Cord(std::to_string(node)));
  return status;
}

std::optional<int> SilentNode(const Status& status) {
  const auto payload = status.GetPayload(kSilent);
  if (!payload) return std::nullopt;
  return std::atoi(std::string(*payload).c_str());
}

}  // namespace ringwood
