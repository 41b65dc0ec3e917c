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
//
// With `shards` > 1 every index range (shard.h) has a tree of its own: shard s over the reducers s,
// s + shards, s + 2·shards, … So the NIC of every reducer carries its part only. Reducers
// are counted from `first` on, round and round: that is how groups of a plan share them (assign.h).
#pragma once

#include <vector>

#include "transport/schedule.h"

namespace ringwood {

struct TreeShape {
  int workers = 1;   // nodes 0..workers-1
  int reducers = 0;  // nodes workers..workers+reducers-1; 0: workers exchange among themselves
  int fanout = 8;    // children of a reducer; below 2 counts as 2
  int shards = 1;    // 1..max(1, reducers)
  int first = 0;     // 0..max(0, reducers − 1): the root of shard 0
  bool operator==(const TreeShape&) const = default;
};

// One shard's tree, worked out once. Nodes are those of the epoch.
class Tree {
 public:
  explicit Tree(const TreeShape& shape, int shard = 0);

  // -1 for the root, for idle reducers and those of other shards, and for every node when there is
  // one worker or no reducer.
  int parent(int node) const { return parents_.at(node); }

  // In increasing node order, which is the order of summation.
  const std::vector<int>& children(int node) const { return children_.at(node); }

  // How many workers' entries reach `node` (1 for a worker itself).
  int workers_under(int node) const;

 private:
  const int workers_;
  std::vector<int> parents_;
  std::vector<std::vector<int>> children_;
};

// Which shard's tree a reducer belongs to, and which reducer is a shard's root.
int ShardOfReducer(const TreeShape& shape, int node);
int RootOf(const TreeShape& shape, int shard);

// Slot s, the entries of shard s, climbs, is reduced on the way, and comes down again as the result
// (the counted bits travel beside it). Without reducers every worker sends slot = its rank to every
// other. Idle nodes: empty.
std::vector<Schedule> TreeSchedules(const TreeShape& shape);  // one a node

}  // namespace ringwood
