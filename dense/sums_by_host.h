// How fp32 and bf16 in device memory are summed: by the plan of cuda/sum_plan.h, whose network
// interfaces carry 2 (H-1)/H of the tensor, or over NCCL's own ring, which carries 2 (P-1)/P. The
// rings ask it, and so does the planner.
#pragma once

#include <cstdint>

#include "dense/hosts.h"

namespace ringwood {

// Short sums take as long as their hops, of which NCCL needs fewer kernels.
constexpr double kLeastSum = 1 << 20;  // bytes

// Whether the plan is better than NCCL's ring: it is where it saves a tenth of the bytes, which
// also means eleven hosts at most, and so few messages that meet in one NIC. The same on all ranks.
inline bool SumsByHost(const Hosts& hosts, double bytes) {
  const auto ranks = static_cast<uint64_t>(RanksOf(hosts)), count = uint64_t{hosts.size()};
  return count > 1 && bytes >= kLeastSum && 10 * (ranks - 1) * count >= 11 * (count - 1) * ranks;
}

}  // namespace ringwood
