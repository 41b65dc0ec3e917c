// What the status of a job says of its plan: bounded, without the names of tensors. Pure.
#pragma once

#include "ringwood/v1/control.pb.h"
#include "server/coordinator/epoch/active_plan.h"

namespace ringwood {

// Most groups that a status shows; of more the longest.
inline constexpr int kMaxPlannedGroups = 256;

v1::PlanFacts FactsOf(const ActivePlan& active);

}  // namespace ringwood
