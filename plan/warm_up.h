// Density warm-up (Deep Gradient Compression, Lin et al. 2018): training begins with many entries,
// and their share falls exponentially to the plan's own in stages of equal length. A stage is a
// plan: the same groups on the same routes with other densities. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/plan.h"

namespace ringwood {

constexpr double kWarmUpDensity = 0.25;  // of the first stage
constexpr int kWarmUpStages = 4;         // at 0.001 those of DGC: 25 %, 6.3 %, 1.6 %, 0.4 %

// The stage of the training step that follows `committed` steps, when the warm-up takes `steps`:
// 0 to kWarmUpStages - 1; kWarmUpStages when it is over.
int WarmUpStage(uint64_t committed, uint64_t steps);

// What a group that ends with `density` has in this stage: 0.25 · (density / 0.25)^(stage / 4);
// never less than its own.
double WarmUpDensity(int stage, double density);

// `plan`, of this table and of any stage, as it is in `stage`.
Plan AtStage(Plan plan, const std::vector<TensorSpec>& tensors, int stage);

// For the log: "density warm-up, stage 2 of 4".
std::string StageText(int stage);

}  // namespace ringwood
