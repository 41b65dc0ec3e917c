// DeAR (Zhang, Shi, Chu, Li; ICDCS 2023): reduce-scatter hides behind backward, all-gather behind
// the next forward. All-gather groups are unions of reduce-scatter groups, in forward order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/model/cost.h"

namespace ringwood {

struct DearInput {
  std::vector<double> ready_seconds;    // backward order
  std::vector<double> forward_seconds;  // of each tensor's layer, same order
  std::vector<uint64_t> bytes;
  Cost reduce_scatter;
  Cost all_gather;
};

struct DearPlan {
  // The last tensor of each group, in backward order; increasing.
  std::vector<size_t> scatter_lasts;  // of the reduce-scatters
  std::vector<size_t> gather_lasts;   // of the all-gathers
  double scatter_end_seconds = 0;     // from the start of backward
  double forward_end_seconds = 0;     // the next forward's end: backward + forward + what shows
};

// All-gathers start when the last reduce-scatter ends, the one with the last tensor first.
DearPlan PlayDear(const DearInput& input, std::vector<size_t> scatter_lasts,
                  std::vector<size_t> gather_lasts);

// The least forward end over all pairs of groupings: a Pareto front of (lane end, forward
// remainder) over the boundaries of all-gather groups. Above kDearExact tensors the reduce-scatter
// groups are the exact ones of their lane and only their unions are searched.
DearPlan PlanDearExact(const DearInput& input);
constexpr size_t kDearExact = 256;

}  // namespace ringwood
