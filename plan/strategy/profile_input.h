// From a profile to what the planners take.
#pragma once

#include "plan/model/model_profile.h"
#include "plan/strategy/planner.h"

namespace ringwood {

// `density`: the lower bound on the sparse route, the same for all tensors.
PlanInput InputOf(const ModelProfile& profile, double density);

// The flags' --density and --max-density: the error names both.
Status CheckDensities(double density, double max_density);

}  // namespace ringwood
