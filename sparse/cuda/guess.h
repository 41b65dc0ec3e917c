// Where a tensor's candidates begin in the next step: a share of the last threshold, which follows
// what it gave. Included by device and host code: nothing of CUDA in here.
//
// Residuals pile up below the threshold until they cross it, each by a step's growth, which is
// about the density's share of the threshold. So at 0.1 % of the entries the next k lie within a
// thousandth of it, and a floor further below brings many more than k.
#pragma once

#include <cstdint>

#include "sparse/cuda/view.h"

namespace ringwood::cuda {

constexpr float kLeastGap = 1e-5f, kLargestGap = 0.3f;  // between the floor's share and 1

// Aims at 1.1 to 1.4 k candidates. A miss, fewer than k or more than the list holds, costs passes
// over the whole residual: so the floor goes back at once after one, and comes up slowly while the
// list has room.
RW_DEVICE inline float NextGuess(float guess, uint32_t candidates, uint32_t k, uint32_t room) {
  float gap = 1 - guess;
  if (candidates < k) {
    gap *= 2;
  } else if (candidates > room) {
    gap *= 0.7f;
  } else if (candidates > k + uint64_t{k} * 2 / 5) {
    gap *= 0.97f;
  } else if (candidates < k + k / 10) {
    gap *= 1.2f;
  }
  gap = gap < kLargestGap ? gap : kLargestGap;
  return 1 - (gap > kLeastGap ? gap : kLeastGap);
}

}  // namespace ringwood::cuda
