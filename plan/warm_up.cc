#include "plan/warm_up.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"

namespace ringwood {

int WarmUpStage(uint64_t committed, uint64_t steps) {
  if (committed >= steps) return kWarmUpStages;
  return static_cast<int>(committed * kWarmUpStages / steps);
}

double WarmUpDensity(int stage, double density) {
  if (stage >= kWarmUpStages || density >= kWarmUpDensity) return density;
  const double way = static_cast<double>(stage) / kWarmUpStages;
  return std::max(density, kWarmUpDensity * std::pow(density / kWarmUpDensity, way));
}

Plan AtStage(Plan plan, const std::vector<TensorSpec>& tensors, int stage) {
  for (Group& group : plan.groups) {
    if (group.route != "tree") continue;
    const double final = group.final_density == 0 ? group.density : group.final_density;
    group.density = WarmUpDensity(stage, final);
    group.final_density = group.density == final ? 0 : final;
    group.k = 0;
    for (const uint32_t t : group.tensors) group.k += EntriesOf(group.density, tensors[t].elements);
  }
  return plan;
}

std::string StageText(int stage) {
  if (stage >= kWarmUpStages) return "density warm-up: over";
  return absl::StrFormat("density warm-up, stage %d of %d", stage + 1, kWarmUpStages);
}

}  // namespace ringwood
