// What a sparse group costs on its way up and down the reducers.
#pragma once

#include "plan/strategy/planner.h"
#include "sparse/tree.h"

namespace ringwood {

// One reducer tree, any bytes of one worker; convex and piecewise affine in the bytes. The result
// has `result` times as many.
double TreeSeconds(const Network& network, int workers, int reducers, int fanout, double bytes,
                   double result = 1);

// A group, bytes of one worker, over input.servers. It is cut into index ranges (sparse/shard.h),
// each with a tree of its own, that go up and down at the same time; it takes at least what the
// busiest host's NIC sends and receives. A host that gathers (sparse/tree.h) is one worker to the
// roots, with the entries that its reducer keeps of its workers'.
Cost TreeCost(const PlanInput& input, int fanout);

// The fan-out that is fastest for a message of the table's mean tensor, or for the longest message
// that is not cut into ranges where the mean is longer: the range of a longer one has fewer
// reducers than levels to fill.
int BestFanout(const PlanInput& input);

// The delay of all hops on the longest way, up and down.
double TreeDelay(const Network& network, const TreeShape& job);

}  // namespace ringwood
