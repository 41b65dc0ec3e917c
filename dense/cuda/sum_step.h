// The kernel of plain sums: ((own + first other) + second other) + … for each element.
//
// Generic in the Thread (base/cuda/threads.h).
#pragma once

#include "base/cuda/threads.h"
#include "dense/cuda/sum_view.h"

namespace ringwood::cuda {

template <class Thread>
RW_DEVICE void SumElements(Thread& thread, const SumView& view) {
  const uint64_t step = uint64_t{thread.blocks()} * kThreads;
  for (uint64_t at = uint64_t{thread.block()} * kThreads + thread.id(); at < view.elements;
       at += step) {
    float sum = view.own[at];
    for (int other = 0; other < view.others; ++other) {
      sum += view.rest[static_cast<uint64_t>(other) * view.elements + at];
    }
    view.sum[at] = sum;
  }
}

}  // namespace ringwood::cuda
