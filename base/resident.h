// The memory of this process that is in RAM, as the kernel counts it.
#pragma once

#include <cstdint>

namespace ringwood {

struct ResidentMemory {
  uint64_t bytes = 0;  // now
  uint64_t peak_bytes = 0;
};

// Takes microseconds. Zeros where the kernel does not say.
ResidentMemory ReadResidentMemory();

}  // namespace ringwood
