// What a new plan changes in the densities, for the log. Pure.
#pragma once

#include <string>
#include <vector>

#include "plan/plan.h"

namespace ringwood {

// Entries of a round by the plan: of its sparse groups what a worker sends, of dense ones all.
double InformationOf(const Plan& plan, const std::vector<TensorSpec>& tensors);

// "densities: 7.weight 0.01 → 0.035 (hides: …), … and 4 more": the sparse tensors whose density
// changes most, as it is after the warm-up, with the new plan's reason. "" where none changes.
std::string DensityChanges(const Plan& before, const Plan& after,
                           const std::vector<TensorSpec>& tensors);

}  // namespace ringwood
