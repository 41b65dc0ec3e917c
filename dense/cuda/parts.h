// The trainer's tensors of a dense group as its kernels see them. Included by device and host code:
// nothing of CUDA in here.
#pragma once

#include <cstdint>

namespace ringwood::cuda {

struct PartView {
  void* data = nullptr;   // the trainer's, aligned to its elements
  uint64_t elements = 0;  // at least 1
  uint64_t begin = 0;     // among the parts of a launch, rising
  uint64_t flat = 0;      // in the group's flat memory

  bool operator==(const PartView& other) const {
    return data == other.data && elements == other.elements && begin == other.begin &&
           flat == other.flat;
  }
};

// The parts of a launch.
struct PartsView {
  const PartView* parts = nullptr;
  uint32_t count = 0;
  uint64_t elements = 0;
};

}  // namespace ringwood::cuda
