// The tree that sparse entries climb: workers are its leaves, reducers its inner nodes.
//
//   workers 7, reducers 3, fan-out 3:              R0
//                                       .-----.----+----.
//                                       w0    R1        R2
//                                           w1 w2 w3  w4 w5 w6
//
// A fan-out for all workers needs one reducer. Below it all reducers form a heap of that fan-out;
// workers are then given out so that the numbers of children differ as little as possible, in
// ranges of consecutive ranks. A reducer that would have fewer than two children is left idle. More
// workers than the fan-out allows are spread evenly all the same.
//
// With `shards` > 1 every index range (shard.h) has a tree of its own: shard s over the reducers s,
// s + shards, s + 2·shards, … So the NIC of every reducer carries its part only. Reducers
// are counted from `first` on, round and round: that is how groups of a plan share them (assign.h).
//
// A host with several workers and a reducer gathers: the workers there send to that reducer, which
// adds up what they have, so that the host's NIC carries one message and not one for each. Then
// every tree has two levels, whatever the fan-out: the root has the gathering reducers of the other
// hosts, the workers of its own host, and all workers whose host gathers nothing. A reducer is the
// root of one range and gathers for the others.
//
//   hosts of two workers and a reducer:        R0                        R1
//                                        .----.+-----.             .----.+-----.
//                                        w0   w1    R1    and      w2   w3    R0
//                                                 w2  w3                    w0  w1
#pragma once

#include <string>
#include <vector>

namespace ringwood {

struct TreeShape {
  int workers = 1;   // nodes 0..workers-1
  int reducers = 0;  // nodes workers..workers+reducers-1; 0: workers exchange among themselves
  int fanout = 8;    // children of a reducer; below 2 counts as 2
  int shards = 1;    // 1..max(1, reducers)
  int first = 0;     // 0..max(0, reducers − 1): the root of shard 0
  std::vector<int> hosts = {};  // a number for the host of each node; empty: each has its own
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
  void Heap(const TreeShape& shape, int shard);
  void GatherByHost(const TreeShape& shape, int shard);

  const int workers_;
  std::vector<int> parents_;
  std::vector<std::vector<int>> children_;
};

int RootOf(const TreeShape& shape, int shard);

// Whether some host gathers.
bool Gathers(const TreeShape& shape);

// The shards that a reducer may have children in.
std::vector<int> ShardsAt(const TreeShape& shape, int node);

// TreeShape::hosts of nodes whose hosts have these names.
std::vector<int> HostNumbers(const std::vector<std::string>& names);

}  // namespace ringwood
