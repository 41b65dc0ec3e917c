// The sparse groups of a plan as workers and reducers run them: one list, worked out alike on every
// node, so that no message of the tree needs to say what it is.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "plan/plan.h"
#include "sparse/group.h"

namespace ringwood {

// The groups on route "tree", with the index ranges and reducers that serve them. `elements` of the
// plan's tensors, in the order of the table. An error names a tensor that is not in the table.
StatusOr<std::vector<SparseGroup>> SparseGroupsOf(const Plan& plan, const TreeShape& job,
                                                  const std::vector<uint64_t>& elements);

}  // namespace ringwood
