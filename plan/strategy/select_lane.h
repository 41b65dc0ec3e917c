// A lane whose groups are selected on the device that computes backward: selection delays the
// gradients behind it (OMGS-SGD, INFOCOM 2020).
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "plan/model/cost.h"
#include "plan/strategy/lane.h"

namespace ringwood {

struct SelectLane {
  std::vector<double> backward_seconds;  // of each tensor's layer
  std::vector<double> elements;
  std::vector<double> wire_bytes;  // what the tensor's picks add to a message
  Cost cost;                       // of one message
  SelectionCost selection;         // of one group
  double delay = 0;                // of a message that was sent
  int window = 1;                  // messages at once, where there is a delay
};

// Start = max(the group before was sent, its own selection's end, one of the window has ended).
// The two strategies below choose as if there were no delay.
Grouping Play(const SelectLane& lane, const std::vector<size_t>& lasts);

// The published rule: merge into the next while the wait is below the start-ups saved. O(L).
std::vector<size_t> Omgs(const SelectLane& lane);

// The earliest end over all groupings. The state after tensor j is a pair (compute end, lane end);
// both are better when smaller and every step is monotone in both, so the Pareto front of the pairs
// is enough. O(L^2 F), F = size of the front; nothing where that would take more than some seconds.
std::optional<std::vector<size_t>> OmgsExact(const SelectLane& lane);

}  // namespace ringwood
