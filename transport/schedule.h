// A collective is a schedule: for one node, the list of what it sends, receives and reduces, in
// order.
//
// Schedules are values made by pure functions (dense/collective.h, sparse/tree_schedule.h). Engines
// run them (dense/run.h; sparse/climb.h and sparse/reducer/reducer.h), the simulator plays them
// (plan/predict/simulate.h), tests prove them.
#pragma once

#include <cstdint>
#include <vector>

namespace ringwood {

enum class Op : uint8_t {
  kSend,           // send the slot's present content to `peer`
  kReceive,        // replace the slot by what `peer` sends
  kReceiveReduce,  // combine what `peer` sends into the slot: add (dense) or merge (sparse)
};

// `peer` is a node of the epoch: workers 0..P-1, then reducers P..P+S-1.
// `slot` is a range of a chunk's elements (dense) or the number of a TreeSlot (sparse).
// `exact`: the message travels unrounded where those of the run are rounded (dense/hierarchy.h).
// `terms`: of how many workers' values a message is the sum. Sums of codes are as wide as it says
// (dense/lattice/codes.h); sums of entries, and the accepted bits for them, are as many more.
struct Step {
  Op op;
  int peer;
  int slot;
  bool exact = false;
  int terms = 1;
  bool operator==(const Step&) const = default;
};

using Schedule = std::vector<Step>;

}  // namespace ringwood
