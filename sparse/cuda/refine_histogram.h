// Where a rank falls among keys: histograms, each of a bin of the one before. Generic in the Thread
// (base/cuda/threads.h).
#pragma once

#include "base/cuda/scan.h"
#include "sparse/cuda/view.h"

namespace ringwood::cuda {

constexpr uint32_t kBinsPerThread = kBins / kThreads;

// Where a rank falls in a histogram.
struct Found {
  uint32_t bin = 0;
  uint32_t count = 0;  // keys in it
  uint32_t need = 0;   // of them
};

struct RefineShared {
  uint32_t bins[kBins];
  ScanShared scan;
  Found found;
  uint32_t last;  // this block was the last one to finish its part of a tensor
};

// Keys from `low` to `end`, in bins of 2^shift of them.
struct Range {
  uint32_t low = 0, end = 0, shift = 0;
};

// The smallest shift with which the range fits into the histogram.
RW_DEVICE inline Range InBins(uint32_t low, uint32_t end) {
  Range range{low, end, 0};
  while ((end - low - 1) >> range.shift >= kBins) ++range.shift;
  return range;
}

// Bins reach as far above the floor as the state says, and the last bin has all that are larger.
RW_DEVICE inline Range FirstRange(const TensorState& state, bool whole) {
  if (whole || state.floor <= 1) return InBins(1, kNonFinite);
  const uint32_t reach = state.reach < kBins ? kBins : state.reach;
  if (reach >= kNonFinite - state.floor) return InBins(state.floor, kNonFinite);
  return {state.floor, kNonFinite, InBins(state.floor, state.floor + reach).shift};
}

RW_DEVICE inline uint32_t BinOf(const Range& range, uint32_t key) {
  const uint32_t bin = (key - range.low) >> range.shift;
  return bin < kBins ? bin : kBins - 1;
}

// Where the rank `need` falls, from the largest bin down, in a histogram of which this thread has
// the counts of kBinsPerThread bins, from `top` down. Writes shared.found if it is in one of them;
// all threads of the block call together. Returns the number of all keys.
template <class Thread>
RW_DEVICE uint32_t FindRank(Thread& thread, RefineShared& shared, uint32_t need, uint32_t top,
                            const uint32_t (&counts)[kBinsPerThread]) {
  uint32_t sum = 0;
  for (uint32_t i = 0; i < kBinsPerThread; ++i) sum += counts[i];
  const Prefix prefix = BlockExclusive(thread, shared.scan, sum);
  uint32_t larger = prefix.before;
  for (uint32_t i = 0; i < kBinsPerThread; ++i) {
    if (larger < need && larger + counts[i] >= need) {
      shared.found = {top - i, counts[i], need - larger};
    }
    larger += counts[i];
  }
  thread.Sync();
  return prefix.total;
}

// What is left of a range when the rank falls into a bin of it.
RW_DEVICE inline Range Narrow(const Range& range, uint32_t bin) {
  const uint32_t low = range.low + (bin << range.shift);
  const uint32_t end = low + (1u << range.shift);
  return InBins(low, bin == kBins - 1 || end > range.end ? range.end : end);
}

}  // namespace ringwood::cuda
