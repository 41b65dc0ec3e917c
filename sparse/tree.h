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

#include <cstdint>
#include <string>
#include <vector>

#include "transport/frame.h"
#include "transport/schedule.h"

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

// ---- schedules ----
//
// What each node does in one sparse exchange, as a value: climb.h and reducer.h run it, the
// simulator plays it (plan/predict/simulate.h).
//
// Entries climb their range's tree in chunks and are reduced on the way: merged, and unless the
// merge is a union, cut to the largest. Down come the result, chunk by chunk, and one accepted bit
// for each entry that went up. A worker sends to all ranges before it waits for the first of them.
//
//     worker                       reducer                           root
//     send     entries             receive+reduce  entries …         receive+reduce  entries …
//     receive  result              send     entries   (parent)
//     receive  accepted             receive  result    (parent)
//                                  send     result  …                send     result  …
//                                  receive  accepted   (parent)
//                                  send     accepted …                send     accepted …
//
// Receives that follow each other may come in any order, and more than one may be asked for at
// once. A reducer needs all of its children's entries before it sends any, because it selects among
// all of them; down, each slot is passed on as soon as it is there. Where hosts gather, a reducer
// first gathers for all other roots, then is one itself, then passes the others' results down.

// A slot of such a schedule: a message of entries has one for each chunk.
struct TreeSlot {
  enum class Kind : uint8_t { kEntries, kResult, kAccepted };
  Kind kind = Kind::kEntries;
  int shard = 0;
  int chunk = 0;  // accepted bits are in one piece
  bool operator==(const TreeSlot&) const = default;
};

// Slots are numbered shard by shard.
constexpr int SlotsOfShard(int chunks) { return 2 * chunks + 1; }
int NumberOf(const TreeSlot& slot, int chunks);
TreeSlot SlotOfNumber(int number, int chunks);

// How the message of a slot is named: each range has names for these.
constexpr uint32_t kEntriesSlot = 0;    // up: entries; down: the result
constexpr uint32_t kAcceptedSlot = 1;   // down: accepted bits
constexpr uint32_t kHistogramSlot = 2;  // between the roots of ranges, one slot a level
constexpr uint32_t kSlotsOfRange = 8;
MessageName NameIn(uint64_t round, uint32_t group, const TreeSlot& slot);

// Empty for idle nodes. Without reducers every worker sends slot = its rank to every other, in one
// piece.
Schedule TreeSchedule(const TreeShape& shape, int chunks, int node);
std::vector<Schedule> TreeSchedules(const TreeShape& shape, int chunks);  // one a node

// One level of the merge "exact" at the root of a range: its histogram, slot = its shard, goes to
// all other roots. How many levels follow, the values decide, so this is no part of the above.
Schedule LevelSchedule(const TreeShape& shape, int shard);

}  // namespace ringwood
