// The measurements of a live run as a profile of the model, which planners read like any other
// (plan/model/model_profile.h).
#pragma once

#include <vector>

#include "client/replan/profile.h"
#include "plan/model/model_profile.h"

namespace ringwood {

// `measured` of one rank, its ready_seconds by `table`, its groups by `plan`. A step's time before
// the first gradient counts as forward; a group's selection is shared out by elements.
ModelProfile LiveProfile(const std::vector<TensorSpec>& table, const Plan& plan,
                         const Measured& measured);

}  // namespace ringwood
