#include <algorithm>
#include <numeric>

#include "plan/strategy/dear.h"
#include "plan/strategy/problem.h"

namespace ringwood {
namespace {

Group PhaseGroup(const char* route, size_t first, size_t last, double start, double end) {
  Group group;
  group.route = route;
  group.tensors.resize(last - first + 1);
  std::iota(group.tensors.begin(), group.tensors.end(), static_cast<uint32_t>(first));
  group.start_seconds = start;
  group.end_seconds = end;
  return group;
}

}  // namespace

Plan PlanDear(const Problem& problem) {
  const PlanInput& input = *problem.input;
  DearInput dear{problem.ready, ForwardSeconds(problem), {}, {}, {}};
  for (const TensorSpec& tensor : input.tensors) {
    dear.bytes.push_back(tensor.element_bytes * tensor.elements);
  }
  // A measured ring splits into its two phases, half each; the closed forms know the additions.
  dear.reduce_scatter = input.ring_cost ? input.ring_cost->Halved()
                                        : RingReduceScatterCost(input.network, input.world);
  dear.all_gather =
      input.ring_cost ? input.ring_cost->Halved() : RingAllGatherCost(input.network, input.world);
  const DearPlan chosen = PlanDearExact(dear);
  std::vector<Group> groups;
  const LaneInput lane{dear.ready_seconds, dear.bytes, dear.reduce_scatter, 0};
  for (const Run& run : Play(lane, chosen.scatter_lasts)) {
    groups.push_back(
        PhaseGroup("reduce-scatter", run.first, run.last, run.start_seconds, run.end_seconds));
    groups.back().reason = "hides behind backward";
  }
  double now = chosen.scatter_end_seconds;
  for (size_t g = chosen.gather_lasts.size(); g-- > 0;) {
    const size_t first = g == 0 ? 0 : chosen.gather_lasts[g - 1] + 1;
    double bytes = 0;
    for (size_t j = first; j <= chosen.gather_lasts[g]; ++j) {
      bytes += static_cast<double>(dear.bytes[j]);
    }
    const double end = now + dear.all_gather.Seconds(bytes);
    groups.push_back(PhaseGroup("all-gather", first, chosen.gather_lasts[g], now, end));
    groups.back().reason = g + 1 == chosen.gather_lasts.size()
                               ? "the next forward waits for these layers first"
                               : "hides behind the next forward of the layers before";
    now = end;
  }
  Plan plan = Finish("dear", problem, std::move(groups));
  // The next forward is part of this step's time: it cannot end before its gathers.
  plan.predicted_seconds =
      std::max(chosen.forward_end_seconds, problem.ready.empty() ? 0 : problem.ready.back());
  return plan;
}

}  // namespace ringwood
