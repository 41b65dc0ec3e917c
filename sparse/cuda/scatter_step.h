// The body of the kernel that gives the averages to the trainer: zeros and the entries of the
// result, over the gradients of all tensors of a group in one launch. One block, one tile. Generic
// in the Thread (base/cuda/threads.h).
#pragma once

#include "sparse/cuda/view.h"

namespace ringwood::cuda {

struct ScatterShared {
  uint32_t first, last;  // the entries of this tile
};

// The first entry at or behind element `at` of the group. All lanes of a warp look together, at one
// place each: a search by halves would wait for memory four times as often.
template <class Thread>
RW_DEVICE uint32_t EntryAt(Thread& thread, const ResultView& result, uint64_t at) {
  uint32_t low = 0, high = result.count;
  while (low < high) {
    const uint32_t step = (high - low) / (kWarp + 1) + 1;
    const uint64_t probe = low + uint64_t{thread.lane() + 1} * step - 1;
    const uint32_t before = Thread::Bits(thread.Ballot(probe < high && result.index[probe] < at));
    const uint64_t next = low + uint64_t{before + 1} * step - 1;  // not before `at`, or beyond
    low += before * step;
    high = next < high ? static_cast<uint32_t>(next) : high;
  }
  return low;
}

// In double, as on the CPU.
RW_DEVICE inline float Average(float sum, double total) {
  return total == 0 ? 0 : static_cast<float>(sum / total);
}

template <class Thread>
RW_DEVICE void ScatterTile(Thread& thread, ScatterShared& shared, const GroupView& group,
                           const ResultView& result) {
  const uint32_t tile = thread.block();
  const uint32_t t = group.tile_tensor[tile];
  const TensorView& tensor = group.tensors[t];
  const uint64_t base = uint64_t{tile - tensor.first_tile} * kTileElements;
  const uint64_t left = tensor.elements - base;
  const uint32_t count = static_cast<uint32_t>(left < kTileElements ? left : kTileElements);
  const uint64_t first = tensor.first + base;  // of the tile, in the group
  float* const gradient = group.gradients[t] + base;
  if (thread.warp() < 2) {
    const uint32_t entry = EntryAt(thread, result, thread.warp() == 0 ? first : first + count);
    if (thread.lane() == 0) (thread.warp() == 0 ? shared.first : shared.last) = entry;
  }
  if (reinterpret_cast<uintptr_t>(gradient) % 16 == 0) {
    const uint32_t fours = count / 4;
    for (uint32_t i = thread.id(); i < fours; i += kThreads) {
      Thread::Store4(gradient + 4 * i, Four{{0, 0, 0, 0}});
    }
    if (4 * fours + thread.id() < count) gradient[4 * fours + thread.id()] = 0;
  } else {
    for (uint32_t i = thread.id(); i < count; i += kThreads) gradient[i] = 0;
  }
  thread.Sync();
  for (uint32_t i = shared.first + thread.id(); i < shared.last; i += kThreads) {
    gradient[result.index[i] - first] = Average(result.value[i], result.total);
  }
}

}  // namespace ringwood::cuda
