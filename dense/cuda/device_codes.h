// What an all-reduce as codes needs on a device, beside input and output.
#pragma once

#include "dense/lattice/codes.h"

namespace ringwood {

// Device memory; see AllReduceRequest. The caller makes next errors and reaches real when the
// result is, and drops them otherwise.
struct DeviceCodes {
  int bits = 0;                       // 8 or 4; 0: no codes, fp32 travels
  const float* error = nullptr;       // of each element, added to the input
  float* next_error = nullptr;        // may be the input
  const BlockReach* reach = nullptr;  // of each block, alike on all ranks
  BlockReach* next_reach = nullptr;
  BlockReach less = 0;
};

}  // namespace ringwood
