// Tensors that take turns: a plan in which no group has tensors of different turns, so that a group
// takes part in a round as a whole, or rests.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/plan.h"

namespace ringwood {

// `turns`: of each tensor of the table, a number that is equal for those that always take part in
// the same rounds. Groups of one turn stay as they are; the parts of others follow each other in
// the order of their first tensors, and have its times and reason.
Plan SplitByTurns(Plan plan, const std::vector<TensorSpec>& tensors,
                  const std::vector<uint32_t>& turns);

}  // namespace ringwood
