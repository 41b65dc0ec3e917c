// The way of the entries of a group's range through one reducer node: its schedule of the tree
// (sparse/tree_schedule.h), in the order in which the node needs it. Pure.
#pragma once

#include <vector>

#include "sparse/reducer/part.h"
#include "sparse/tree_schedule.h"
#include "transport/schedule.h"

namespace ringwood {

// What goes down in one slot: it comes from the parent, or at the root is made here, and goes to
// all children in this order.
struct Relay {
  TreeSlot slot{};
  int from = -1;
  std::vector<int> to{};
};

struct ReducerRoute {
  std::vector<Step> gather{};   // the entries of the children
  std::vector<Step> up{};       // what goes to the parent; nothing at the root
  std::vector<Relay> relays{};  // the result's chunks, and the accepted bits last
  Schedule level{};  // of histograms, at the root of a shard that agrees with others; else empty
};

// `schedule`: the node's, of all ranges.
ReducerRoute RouteOf(const ReducerPart& part, const Schedule& schedule);

}  // namespace ringwood
