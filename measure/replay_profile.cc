#include "measure/replay_profile.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/check.h"
#include "base/median.h"
#include "timeline/busy_time.h"

namespace ringwood {
namespace {

struct Round {
  std::map<uint32_t, int64_t> begun;  // packing, by group
  std::set<uint32_t> started;         // groups that are exchanged
  BusyTime ring, tree;                // time of the lanes
  int64_t last_end = 0, applied = 0;
  ReplayRound seconds;
};

TimePoint TimeOf(const TimelineEvent& event) {
  return TimePoint(std::chrono::nanoseconds(event.nanoseconds));
}

// What passed since `begun`; 0 where there was no such beginning.
double Since(const std::map<uint32_t, int64_t>& begun, const TimelineEvent& event) {
  const auto found = begun.find(event.index);
  return found == begun.end() ? 0 : 1e-9 * static_cast<double>(event.nanoseconds - found->second);
}

void Take(const Plan& plan, const TimelineEvent& event, Round* round) {
  const bool known = event.index < plan.groups.size();
  const bool tree = known && plan.groups[event.index].route == "tree";
  switch (event.kind) {
    case TimelineKind::kSelect:
      round->begun[event.index] = event.nanoseconds;
      break;
    case TimelineKind::kSelected:
      if (!known) break;
      (tree ? round->seconds.select : round->seconds.pack) += Since(round->begun, event);
      break;
    case TimelineKind::kGroup:
      if (!known || !round->started.insert(event.index).second) break;
      (tree ? round->tree : round->ring).Begin(TimeOf(event));
      break;
    case TimelineKind::kGroupEnded:
      if (round->started.erase(event.index) > 0) {
        (tree ? round->seconds.tree : round->seconds.ring) +=
            ToSeconds((tree ? round->tree : round->ring).End(TimeOf(event)));
      }
      round->last_end = std::max(round->last_end, event.nanoseconds);
      break;
    case TimelineKind::kApplied:
      round->applied = event.nanoseconds;
      break;
    default:
      break;
  }
}

}  // namespace

std::vector<ReplayRound> RoundsOf(const Plan& plan, const std::vector<TimelineEvent>& events) {
  std::map<uint64_t, Round> found;
  for (const TimelineEvent& event : events) Take(plan, event, &found[event.round]);
  std::vector<ReplayRound> rounds;
  for (auto& [number, round] : found) {
    if (round.applied == 0 || round.last_end == 0) continue;
    round.seconds.tail = 1e-9 * static_cast<double>(round.applied - round.last_end);
    rounds.push_back(std::move(round.seconds));
  }
  if (rounds.size() > 1) rounds.erase(rounds.begin());
  return rounds;
}

std::vector<double> ToMaxima(const std::vector<ReplayRound>& rounds) {
  std::vector<double> maxima;
  for (const ReplayRound& round : rounds) {
    maxima.insert(maxima.end(), {round.pack, round.select, round.tail, -round.ring, -round.tree});
  }
  return maxima;
}

std::vector<ReplayRound> FromMaxima(const std::vector<double>& maxima) {
  constexpr size_t kEntries = 5;
  RW_CHECK(maxima.size() % kEntries == 0);
  std::vector<ReplayRound> rounds;
  for (size_t i = 0; i < maxima.size(); i += kEntries) {
    rounds.push_back({.pack = maxima[i],
                      .select = maxima[i + 1],
                      .tail = maxima[i + 2],
                      .ring = -maxima[i + 3],
                      .tree = -maxima[i + 4]});
  }
  return rounds;
}

ReplayCosts CostsOf(const Plan& plan, const ModelProfile& profile,
                    const std::vector<ReplayRound>& rounds) {
  double dense = 0;
  double sparse = 0;
  for (const Group& group : plan.groups) {
    for (const uint32_t t : group.tensors) {
      const double elements = t < profile.tensors.size() ? profile.tensors[t].elements : 0;
      (group.route == "tree" ? sparse : dense) += elements;
    }
  }
  std::vector<double> pack, select, ring, tree, tail;
  for (const ReplayRound& round : rounds) {
    if (dense > 0) pack.push_back(round.pack / dense);
    if (sparse > 0) select.push_back(round.select / sparse);
    ring.push_back(round.ring);
    tree.push_back(round.tree);
    tail.push_back(round.tail);
  }
  return {.pack_seconds_per_element = Median(std::move(pack)),
          .select_seconds_per_element = Median(std::move(select)),
          .ring_seconds = Median(std::move(ring)),
          .tree_seconds = Median(std::move(tree)),
          .tail_seconds = Median(std::move(tail))};
}

}  // namespace ringwood
