// What a live run measured, as a trace: the planners read it like any other (plan/trace.h).
#pragma once

#include <vector>

#include "client/profile.h"
#include "plan/trace.h"

namespace ringwood {

// `measured` of one rank, its ready_seconds by `table`, its groups by `plan`. A step's time before
// the first gradient counts as forward; a group's selection is shared out by elements.
Trace LiveTrace(const std::vector<TensorSpec>& table, const Plan& plan, const Measured& measured);

}  // namespace ringwood
