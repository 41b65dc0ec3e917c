// What the kernel of plain sums sees: memory of a device, no ownership. Included by device and host
// code: nothing of CUDA in here.
#pragma once

#include <cstdint>

namespace ringwood::cuda {

// All of float, or all of bfloat16.
struct SumView {
  const void* own = nullptr;
  const void* rest = nullptr;  // those of `others` ranks or hosts, one after the other
  int others = 0;
  uint64_t elements = 0;  // of each
  void* sum = nullptr;    // may be `own`
  bool bfloat16 = false;
};

}  // namespace ringwood::cuda
