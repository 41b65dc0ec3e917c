// The refining kernel's last phase: every block writes the picks of its tiles, in index order.
// Generic in the Thread (base/cuda/threads.h).
#pragma once

#include "base/cuda/scan.h"
#include "sparse/cuda/refine_share.h"

namespace ringwood::cuda {

// Turns the counts of this block's tiles, from `begin` to `end` of a tensor, into the place of each
// one's first pick and the ties in tiles before it. Blocks before this one have the tensor's tiles
// before `begin`, and their sums are of it.
template <class Thread>
RW_DEVICE void PlaceTiles(Thread& thread, ScanShared& scan, const GroupView& group, uint32_t t,
                          uint32_t begin, uint32_t end) {
  const TensorView& tensor = group.tensors[t];
  const uint32_t need = group.states[t].need;
  uint32_t larger_before = 0, ties_before = 0;
  if (begin > tensor.first_tile) {
    uint32_t larger = 0, ties = 0;
    const uint32_t first = BlockOfTile(group, tensor.first_tile, thread.blocks());
    for (uint32_t block = first + thread.id(); block < thread.block(); block += kThreads) {
      larger += Thread::LoadFresh(group.block_larger + block);
      ties += Thread::LoadFresh(group.block_ties + block);
    }
    larger_before = BlockExclusive(thread, scan, larger).total;
    ties_before = BlockExclusive(thread, scan, ties).total;
  }
  for (uint32_t start = begin; start < end; start += kThreads) {
    const uint32_t tile = start + thread.id();
    const uint32_t larger = tile < end ? Thread::LoadFresh(group.tile_larger + tile) : 0;
    const uint32_t ties = tile < end ? Thread::LoadFresh(group.tile_ties + tile) : 0;
    const Prefix of_larger = BlockExclusive(thread, scan, larger);
    const Prefix of_ties = BlockExclusive(thread, scan, ties);
    if (tile < end) {
      const uint32_t ties_here = ties_before + of_ties.before;
      group.tile_larger[tile] =
          larger_before + of_larger.before + (ties_here < need ? ties_here : need);
      group.tile_ties[tile] = ties_here;
    }
    larger_before += of_larger.total;
    ties_before += of_ties.total;
  }
  thread.Sync();
}

// One warp, one tile.
template <class Thread>
RW_DEVICE void EmitTile(Thread& thread, const GroupView& group, uint32_t t, uint32_t tile) {
  const TensorView& tensor = group.tensors[t];
  const TensorState& state = group.states[t];
  const Items items = ItemsOf(group, tensor, state.dense != 0, tile);
  const uint32_t cut = state.cut, need = state.need;
  const uint32_t lanes_before = (1u << thread.lane()) - 1;
  uint32_t to = tensor.first_pick + group.tile_larger[tile];
  uint32_t ties_before = group.tile_ties[tile];
  for (uint32_t start = 0; start < items.count; start += kWarp) {
    const uint32_t i = start + thread.lane();
    const float value = i < items.count ? items.value[i] : 0;
    const uint32_t key = Thread::Key(value);
    const bool tie = IsSelectable(key) && key == cut;
    const uint32_t ties = thread.Ballot(tie);
    const bool early = tie && ties_before + Thread::Bits(ties & lanes_before) < need;
    const bool kept = early || (IsSelectable(key) && key > cut);
    const uint32_t picks = thread.Ballot(kept);
    if (kept) {
      const uint32_t place = to + Thread::Bits(picks & lanes_before);
      group.pick_index[place] = items.index != nullptr ? items.index[i] : items.base + i;
      group.pick_value[place] = value;
    }
    to += Thread::Bits(picks);
    ties_before += Thread::Bits(ties);
  }
}

}  // namespace ringwood::cuda
