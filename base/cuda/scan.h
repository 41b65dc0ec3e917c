// Prefix sums over the threads of a warp and of a block, generic in the Thread
// (threads.h says what that is). All threads of the warp or block call together.
#pragma once

#include "base/cuda/threads.h"

namespace ringwood::cuda {

// The sum over this lane and the lanes before it.
template <class Thread, class Value>
RW_DEVICE Value WarpInclusive(Thread& thread, Value value) {
  for (uint32_t distance = 1; distance < kWarp; distance *= 2) {
    const Value other = thread.ShuffleUp(value, distance);
    if (thread.lane() >= distance) value += other;
  }
  return value;
}

struct ScanShared {
  uint32_t sums[kWarps];
};

struct Prefix {
  uint32_t before = 0;  // the sum over the threads before this one
  uint32_t total = 0;
};

template <class Thread>
RW_DEVICE Prefix BlockExclusive(Thread& thread, ScanShared& shared, uint32_t value) {
  const uint32_t through = WarpInclusive(thread, value);
  thread.Sync();  // the sums of a scan before this one have been read
  if (thread.lane() == kWarp - 1) shared.sums[thread.warp()] = through;
  thread.Sync();
  Prefix prefix{through - value, 0};
  for (uint32_t w = 0; w < kWarps; ++w) {
    if (w < thread.warp()) prefix.before += shared.sums[w];
    prefix.total += shared.sums[w];
  }
  return prefix;
}

}  // namespace ringwood::cuda
