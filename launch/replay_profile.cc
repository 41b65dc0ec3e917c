#include "launch/replay_profile.h"

#include <algorithm>
#include <map>

namespace ringwood {
namespace {

struct Round {
  std::map<uint32_t, int64_t> begun;  // packing, by group
  double pack = 0, select = 0;        // ns
  int64_t last_end = 0, applied = 0;
};

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void Take(const Plan& plan, const TraceEvent& event, Round* round) {
  switch (event.kind) {
    case TraceKind::kSelect:
      round->begun[event.index] = event.nanoseconds;
      break;
    case TraceKind::kSelected: {
      const auto found = round->begun.find(event.index);
      if (found == round->begun.end() || event.index >= plan.groups.size()) break;
      const bool tree = plan.groups[event.index].route == "tree";
      (tree ? round->select : round->pack) +=
          static_cast<double>(event.nanoseconds - found->second);
      break;
    }
    case TraceKind::kGroupEnded:
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
  std::vector<double> pack, select, tail;
  for (const auto& [number, round] : rounds) {
    if (dense > 0) pack.push_back(round.pack * 1e-9 / dense);
    if (sparse > 0) select.push_back(round.select * 1e-9 / sparse);
    tail.push_back(static_cast<double>(round.applied - round.last_end) * 1e-9);
  }
  return {Median(std::move(pack)), Median(std::move(select)), Median(std::move(tail))};
}

}  // namespace ringwood
