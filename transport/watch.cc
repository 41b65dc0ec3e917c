#include "transport/watch.h"

#include <algorithm>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace ringwood {
namespace {

constexpr int kAsks = 5;                             // a limit: the peer is asked each fifth of it
constexpr char kSilent[] = "ringwood/silent-nodes";  // a payload: their numbers, "3,4"

std::string HostOf(const Peer& peer) {
  return peer.host.empty() ? absl::StrCat("node ", peer.node) : peer.host;
}

}  // namespace

Watch::Watch(const WatchLimits& limits, int self, const std::vector<Peer>& peers, TimePoint now)
    : limits_(limits), self_(self), looked_(now) {
  for (const Peer& peer : peers) {
    if (peer.node == self) {
      host_ = HostOf(peer);
      continue;
    }
    State& state = peers_[peer.node];
    state.host = HostOf(peer);
    state.on_trial = peer.on_trial;
    state.heard = now;
  }
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
  if (const State& state = found->second; state.ever) {
    TimePoint& departed = departed_[state.host];
    departed = std::max(departed, state.heard);
  }
  peers_.erase(found);
}

Duration Watch::Quiet(const State& peer, TimePoint now) const {
  return now - std::max(peer.heard, peer.since);
}

Duration Watch::LimitOf(const State& peer) const {
  const bool short_limit = peer.ever || peer.on_trial;
  return short_limit ? limits_.silence : std::max(limits_.silence, limits_.start);
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
  std::set<std::string> suspects;  // hosts
  for (auto& [node, peer] : peers_) {
    peer.heard = std::min(now, peer.heard + ours);
    peer.since = std::min(now, peer.since + ours);
    if (awaited.count(node) != 0 && !peer.awaited) peer.since = now;
    peer.awaited = awaited.count(node) != 0;
    if (!peer.awaited || Quiet(peer, now) < LimitOf(peer) / 2) continue;
    suspicion = true;
    if (peer.host != host_) suspects.insert(peer.host);
  }
  for (auto& [node, peer] : peers_) {
    if (peer.awaited && Quiet(peer, now) >= LimitOf(peer)) {
      decision.failed.push_back({node, OthersThan(node, now), peer.ever, peer.host != host_,
                                 LimitOf(peer), SilentNeighbours(node, now)});
      continue;
    }
    const bool quiet = peer.awaited ? Quiet(peer, now) >= pause : now - peer.heard >= pause;
    if ((peer.awaited || (suspicion && peer.ever)) && quiet && now - peer.asked >= pause) {
      peer.asked = now;
      decision.ask.push_back(node);
    }
  }
  AskNeighbours(suspects, now, &decision);
  if (suspicion) AskStrangers(std::move(suspects), now, &decision);
  for (const Failed& failed : decision.failed) peers_.erase(failed.peer);
  return decision;
}

// A peer that noticed the same silence a moment earlier may have left already; it counts as heard
// until then.
Watch::Others Watch::OthersThan(int failed, TimePoint now) const {
  const std::string& host = peers_.at(failed).host;
  const bool abroad = host != host_;
  Others others = Others::kNone;
  for (const auto& [node, peer] : peers_) {
    if (node == failed || (abroad && peer.host == host_)) continue;
    if (Lives(peer, now)) return Others::kAnswer;
    if (!abroad || peer.host != host) others = Others::kSilent;
  }
  for (const auto& [from, heard] : departed_) {
    const bool tells = !abroad || from != host_;
    if (tells && now - heard < limits_.silence / 2) return Others::kAnswer;
  }
  return others;
}

std::vector<int> Watch::SilentNeighbours(int failed, TimePoint now) const {
  const std::string& host = peers_.at(failed).host;
  std::vector<int> silent;
  const auto departed = departed_.find(host);
  const bool left = departed != departed_.end() && now - departed->second < limits_.silence / 2;
  if (host == host_ || left) return silent;
  for (const auto& [node, peer] : peers_) {
    const bool asked = peer.ever || peer.awaited || peer.asked != TimePoint();
    if (node == failed || peer.host != host || !asked) continue;
    if (Lives(peer, now)) return {};
    silent.push_back(node);
  }
  return silent;
}

// Does a process hang, or does nobody of its host answer?
void Watch::AskNeighbours(const std::set<std::string>& suspects, TimePoint now,
                          Decision* decision) {
  std::map<std::string, int> witnesses;
  for (auto& [node, peer] : peers_) {
    if (suspects.count(peer.host) == 0 || peer.ever || peer.awaited) continue;
    if (++witnesses[peer.host] > kWitnesses || now - peer.asked < limits_.silence) continue;
    peer.asked = now;
    decision->ask.push_back(node);
  }
}

// Begins with the peers numbered after this node, so that nodes which suspect the same peer ask
// different ones, and with hosts of which nobody was asked. Each is asked once per limit, and a few
// at a time: one that has not answered by the next turn is no witness.
void Watch::AskStrangers(std::set<std::string> suspects, TimePoint now, Decision* decision) {
  if (!suspects.empty()) suspects.insert(host_);
  std::set<std::string> tried;  // hosts
  int witnesses = 0;
  for (const auto& [node, peer] : peers_) {
    if (suspects.count(peer.host) != 0) continue;
    const bool asked = !peer.ever && !peer.awaited && now - peer.asked < limits_.silence;
    if (asked) tried.insert(peer.host);
    witnesses += Lives(peer, now) || (asked && now - peer.asked < limits_.silence / kAsks);
  }
  for (const bool again : {false, true}) {
    auto next = peers_.upper_bound(self_);
    for (size_t i = 0; i < peers_.size() && witnesses < kWitnesses; ++i, ++next) {
      if (next == peers_.end()) next = peers_.begin();
      State& peer = next->second;
      if (peer.ever || peer.awaited || now - peer.asked < limits_.silence) continue;
      if (suspects.count(peer.host) != 0 || (!again && tried.count(peer.host) != 0)) continue;
      peer.asked = now;
      tried.insert(peer.host);
      decision->ask.push_back(next->first);
      ++witnesses;
    }
  }
}

Status Watch::Reason(const Failed& failed, const std::function<std::string(int)>& label) const {
  const double seconds = ToSeconds(failed.limit);
  const std::string peer = label(failed.peer);
  if (failed.others == Others::kSilent) {
    const char* const abroad = failed.abroad ? " of another host" : "";
    return Accusing(
        TimedOut(
            failed.connected
                ? absl::StrFormat("%s hears no peer%s on the data plane any more, for %.1f s "
                                  "not even %s: its network is cut off",
                                  label(self_), abroad, seconds, peer)
                : absl::StrFormat("%s has heard no peer%s on the data plane within %.1f s, "
                                  "not even %s: does a firewall drop packets to its data port?",
                                  label(self_), abroad, seconds, peer)),
        {self_});
  }
  std::string text = peer + (failed.connected ? " has not answered on the data plane for "
                                              : " was not heard on the data plane within ");
  absl::StrAppendFormat(&text, "%.1f s", seconds);
  const bool others = failed.others == Others::kAnswer;
  if (others && failed.connected) text += " while others did";
  if (!failed.neighbours.empty()) text += ", nor anybody else of its host";
  text += ": ";
  if (!failed.connected) {
    text += "does a firewall drop packets to its data port?";
  } else {
    if (failed.abroad) text += others ? "its network" : "its network or ours";
    text += failed.abroad ? " is cut off, or it hangs" : "it hangs";
  }
  std::vector<int> silent = {failed.peer};
  silent.insert(silent.end(), failed.neighbours.begin(), failed.neighbours.end());
  return Accusing(TimedOut(text), silent);
}

Status Accusing(Status status, const std::vector<int>& nodes) {
  status.SetPayload(kSilent, absl::Cord(absl::StrJoin(nodes, ",")));
  return status;
}

std::vector<int> SilentNodes(const Status& status) {
  std::vector<int> nodes;
  const auto payload = status.GetPayload(kSilent);
  if (!payload) return nodes;
  for (const auto number : absl::StrSplit(std::string(*payload), ',')) {
    nodes.push_back(std::atoi(std::string(number).c_str()));
  }
  return nodes;
}

}  // namespace ringwood
