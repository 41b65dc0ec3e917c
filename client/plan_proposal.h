// The plan that rank 0 proposes when a job starts: the frozen one, else the checkpoint's if it
// fits, else a new one.
#pragma once

#include <vector>

#include "base/status.h"
#include "client/checkpoint/restore.h"
#include "client/exchange/exchange.h"
#include "client/options/options.h"
#include "client/tensor_table.h"
#include "plan/strategy/planner.h"
#include "ringwood/v1/control.pb.h"

namespace ringwood {

// The stage of the density warm-up that the step after `committed` ones is in.
int WarmUpStageAfter(uint64_t committed, const SessionOptions& options);

// The planner's input: `specs` in table order, on this network, without measurements but for those
// of the wire formats where the planner chooses one.
PlanInput PlanInputOf(const SessionOptions& options, const Place& place, const Network& network,
                      bool on_device, std::vector<TensorSpec> specs);

// The table in which tensors with momentum correction have the route that they had before: their
// velocity could not go with them, and the trainer's optimizer would have to take over. Where the
// plan before was for one rank, which sends nothing, only trees count.
std::vector<TensorSpec> WithKeptRoutes(const TensorTable& table, const v1::SavedPlan& before);

// In the stage of the warm-up that follows `committed` steps, but for a frozen plan. `restore` is
// null for a new job; `before` is the plan of the epoch before, empty where there was none. An
// error names the frozen plan's file, or what the planner cannot do.
StatusOr<Plan> ProposePlan(const SessionOptions& options, const Place& place,
                           const Network& network, const TensorTable& table, Restore* restore,
                           const v1::SavedPlan& before, uint64_t committed);

// `plan` with the tensors and the world that it was made for.
v1::SavedPlan SavedPlanOf(const Plan& plan, const TensorTable& table, const Place& place);

}  // namespace ringwood
