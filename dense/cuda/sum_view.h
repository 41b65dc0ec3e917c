// What the kernel of plain sums sees: memory of a device, no ownership. Included by device and host
// code: nothing of CUDA in here.
#pragma once

#include <cstdint>

namespace ringwood::cuda {

struct SumView {
  const float* own = nullptr;
  const float* rest = nullptr;  // those of `others` ranks or hosts, one after the other
  int others = 0;
  uint64_t elements = 0;  // of each
  float* sum = nullptr;   // may be `own`
};

}  // namespace ringwood::cuda
