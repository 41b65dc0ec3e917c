// How fp32 in device memory is summed: by the plan of cuda/sum_plan.h, whose network interfaces
// carry 2 (H-1)/H of the tensor, or over NCCL's own ring, which carries 2 (P-1)/P. The rings ask
// it, and so does the planner.
#pragma once

#include <cstdint>

#include "dense/hosts.h"

namespace ringwood {

// Short sums take as long as their hops, of which NCCL needs fewer kernels.
constexpr uint64_t kLeastSum = uint64_t{1} << 18;  // elements

// Whether the plan is better than NCCL's ring: it is where it saves a tenth of the bytes, which
// also means eleven hosts at most, and so few messages that meet in one NIC. The same on all ranks.
inline bool SumsByHost(const Hosts& hosts, uint64_t elements) {
  const auto ranks = static_cast<uint64_t>(RanksOf(hosts)), count = uint64_t{hosts.size()};
  return count > 1 && elements >= kLeastSum && 10 * (ranks - 1) * count >= 11 * (count - 1) * ranks;
}

}  // namespace ringwood
