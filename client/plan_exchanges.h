// The exchanges of a plan on this worker: one a group, of the kind that the group's route, the
// place of its tensors and what they owe ask for.
#pragma once

#include <memory>
#include <vector>

#include "client/connection/epoch_link.h"
#include "client/exchange/exchange.h"
#include "client/tensor_states.h"
#include "client/tensor_table.h"
#include "plan/plan.h"

namespace ringwood {

struct PlanExchanges {
  std::vector<std::unique_ptr<Exchange>> by_group;  // in the plan's order
  std::vector<TensorStates::Holder> holders;        // by id: who has the tensor
};

// After states->Prepare(plan), and with a device ring where the plan needs one. All arguments but
// the plan outlive the exchanges; an error names what a frozen plan asks for and cannot have.
StatusOr<PlanExchanges> MakeExchanges(const Plan& plan, const TensorTable& table,
                                      TensorStates* states, EpochLink* link);

}  // namespace ringwood
