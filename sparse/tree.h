// The tree that sparse entries climb: workers are its leaves, reducers its inner nodes.
//
//   workers 7, reducers 3, fan-out 8:              R0
//                                       .-----.----+----.
//                                       w0    R1        R2
//                                           w1 w2 w3  w4 w5 w6
//
// Reducers form a heap of the given fan-out; workers are then given out so that the numbers of
// children differ as little as possible, in ranges of consecutive ranks. A reducer that would have
// fewer than two children is left idle. More workers than the fan-out allows are spread evenly all
// the same.
#pragma once

#include <vector>

#include "transport/schedule.h"

namespace ringwood {

struct TreeShape {
  int workers = 1;   // nodes 0..workers-1
  int reducers = 0;  // nodes workers..workers+reducers-1; 0: workers exchange among themselves
  int fanout = 8;    // children of a reducer; below 2 counts as 2
  bool operator==(const TreeShape&) const = default;
};

// -1 for the root, for idle reducers, and for every node when there is one worker or no reducer.
int ParentOf(const TreeShape& shape, int node);

// In increasing node order, which is the order of summation.
std::vector<int> ChildrenOf(const TreeShape& shape, int node);

// How many workers' entries reach `node` (1 for a worker itself).
int WorkersUnder(const TreeShape& shape, int node);

// Slot 0 climbs, is reduced on the way, and comes down again as the result (the counted bits travel
// beside it). Without reducers every worker sends slot = its rank to every other. Idle nodes:
// empty.
Schedule TreeSchedule(const TreeShape& shape, int node);

}  // namespace ringwood
