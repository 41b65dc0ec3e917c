// Which reducers serve which index ranges of which groups: large groups are cut into one range a
// reducer, small ones are spread so that every reducer's NIC carries about as much.
#pragma once

#include <vector>

#include "sparse/group.h"

namespace ringwood {

// Sets `shards` and `first` of every group, in their order: a pure function of the plan, which
// every worker and reducer works out for itself. Greedy: each group begins at the reducer that
// leaves the busiest NIC least loaded (ties: the smaller number).
void Assign(const TreeShape& job, std::vector<SparseGroup>* groups);

}  // namespace ringwood
