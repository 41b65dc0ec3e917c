#include "launch/replay_profile.h"

#include <algorithm>
#include <map>

#include "launch/median.h"

namespace ringwood {
namespace {

struct Round {
  std::map<uint32_t, int64_t> begun, started;       // packing, exchange; by group
  double pack = 0, select = 0, ring = 0, tree = 0;  // ns
  int64_t last_end = 0, applied = 0;
};

// Adds what passed since `begun` to the sum of the group's route.
void Add(const Plan& plan, const std::map<uint32_t, int64_t>& begun, const TraceEvent& event,
         double* ring, double* tree) {
  const auto found = begun.find(event.index);
  if (found == begun.end() || event.index >= plan.groups.size()) return;
  *(plan.groups[event.index].route == "tree" ? tree : ring) +=
      static_cast<double>(event.nanoseconds - found->second);
}

void Take(const Plan& plan, const TraceEvent& event, Round* round) {
  switch (event.kind) {
    case TraceKind::kSelect:
      round->begun[event.index] = event.nanoseconds;
      break;
    case TraceKind::kSelected:
      Add(plan, round->begun, event, &round->pack, &round->select);
      break;
    case TraceKind::kGroup:
      round->started[event.index] = event.nanoseconds;
      break;
    case TraceKind::kGroupEnded:
      Add(plan, round->started, event, &round->ring, &round->tree);
      round->last_end = std::max(round->last_end, event.nanoseconds);
      break;
    case TraceKind::kApplied:
      round->applied = event.nanoseconds;
      break;
    default:
      break;
  }
}

}  // namespace

ReplayCosts CostsOf(const Plan& plan, const Trace& trace, const std::vector<TraceEvent>& events) {
  std::map<uint64_t, Round> rounds;
  for (const TraceEvent& event : events) Take(plan, event, &rounds[event.round]);
  std::erase_if(rounds, [](const auto& item) {
    return item.second.applied == 0 || item.second.last_end == 0;
  });
  if (rounds.size() > 1) rounds.erase(rounds.begin());
  double dense = 0;
  double sparse = 0;
  for (const Group& group : plan.groups) {
    for (const uint32_t t : group.tensors) {
      const double elements = t < trace.tensors.size() ? trace.tensors[t].elements : 0;
      (group.route == "tree" ? sparse : dense) += elements;
    }
  }
  std::vector<double> pack, select, ring, tree, tail;
  for (const auto& [number, round] : rounds) {
    if (dense > 0) pack.push_back(round.pack * 1e-9 / dense);
    if (sparse > 0) select.push_back(round.select * 1e-9 / sparse);
    ring.push_back(round.ring * 1e-9);
    tree.push_back(round.tree * 1e-9);
    tail.push_back(static_cast<double>(round.applied - round.last_end) * 1e-9);
  }
  return {.pack_seconds_per_element = Median(std::move(pack)),
          .select_seconds_per_element = Median(std::move(select)),
          .ring_seconds = Median(std::move(ring)),
          .tree_seconds = Median(std::move(tree)),
          .tail_seconds = Median(std::move(tail))};
}

}  // namespace ringwood
