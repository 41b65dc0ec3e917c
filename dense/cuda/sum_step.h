// The kernel of plain sums: ((own + first other) + second other) + … for each element, in float;
// bfloat16 is rounded once, at the end.
//
// Generic in the Thread (base/cuda/threads.h).
#pragma once

#include "base/cuda/threads.h"
#include "dense/cuda/elements.h"
#include "dense/cuda/sum_view.h"

namespace ringwood::cuda {

template <class Element, class Thread>
RW_DEVICE void SumElements(Thread& thread, const SumView& view) {
  const auto* const own = static_cast<const Element*>(view.own);
  const auto* const rest = static_cast<const Element*>(view.rest);
  const uint64_t step = uint64_t{thread.blocks()} * kThreads;
  for (uint64_t at = uint64_t{thread.block()} * kThreads + thread.id(); at < view.elements;
       at += step) {
    float sum = ToFloat<Thread>(own[at]);
    for (int other = 0; other < view.others; ++other) {
      sum += ToFloat<Thread>(rest[static_cast<uint64_t>(other) * view.elements + at]);
    }
    Store<Thread>(static_cast<Element*>(view.sum) + at, sum);
  }
}

}  // namespace ringwood::cuda
