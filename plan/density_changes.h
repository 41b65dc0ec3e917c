// How much of the gradients a plan exchanges, and what a new plan changes of it. Pure.
#pragma once

#include <string>
#include <vector>

#include "plan/plan.h"

namespace ringwood {

// Entries of a round: of sparse groups those that a worker sends, of dense groups all.
double InformationOf(const std::vector<Group>& groups, const std::vector<TensorSpec>& tensors);

// For the log: "densities: 7.weight 0.01 → 0.035 (hides: …), … and 4 more": the sparse tensors
// whose density changes most, as it is after the warm-up, with the new plan's reason. "" where none
// changes.
std::string DensityChanges(const Plan& before, const Plan& after,
                           const std::vector<TensorSpec>& tensors);

}  // namespace ringwood
