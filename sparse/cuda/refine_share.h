// What a block of the refining kernel reads: its share of the tiles, and of a tile or a list of
// candidates the keys. Generic in the Thread (base/cuda/threads.h).
#pragma once

#include "sparse/cuda/view.h"

namespace ringwood::cuda {

// What a tile offers, in index order.
struct Items {
  const uint32_t* index = nullptr;  // null: base, base + 1, …
  const float* value = nullptr;
  uint32_t base = 0;
  uint32_t count = 0;
};

RW_DEVICE inline bool NeedsWholeResidual(const TensorView& tensor, const TensorState& state) {
  return state.candidates > tensor.room || (state.candidates < tensor.k && state.floor > 1);
}

RW_DEVICE inline Items ItemsOf(const GroupView& group, const TensorView& tensor, bool dense,
                               uint32_t tile) {
  if (!dense) {
    const uint32_t first = tensor.first_candidate + group.tile_first[tile];
    return {group.candidate_index + first, group.candidate_value + first, 0,
            group.tile_count[tile]};
  }
  const uint64_t base = uint64_t{tile - tensor.first_tile} * kTileElements;
  const uint64_t left = tensor.elements - base;
  return {nullptr, tensor.residual[1 - group.present] + base, static_cast<uint32_t>(base),
          static_cast<uint32_t>(left < kTileElements ? left : kTileElements)};
}

RW_DEVICE inline bool IsSelectable(uint32_t key) { return key != 0 && key < kNonFinite; }

// act(key) for this lane's share of the items, in any order. A tile of the residual is aligned and
// read four at a time, several reads under way.
template <class Thread, class Act>
RW_DEVICE void ForKeys(Thread& thread, const Items& items, Act act) {
  constexpr uint32_t kReads = 4;
  uint32_t i = thread.lane();
  if (items.index == nullptr) {
    const uint32_t fours = items.count / 4;
    for (uint32_t first = thread.lane(); first < fours; first += kReads * kWarp) {
      Four read[kReads] = {};  // zeros are never selected
      for (uint32_t r = 0; r < kReads; ++r) {
        const uint32_t at = first + r * kWarp;
        if (at < fours) read[r] = Thread::Load4(items.value + 4 * at);
      }
      for (uint32_t r = 0; r < kReads; ++r) {
        for (uint32_t c = 0; c < 4; ++c) act(Thread::Key(read[r].at[c]));
      }
    }
    i += fours * 4;
  }
  for (; i < items.count; i += kWarp) act(Thread::Key(items.value[i]));
}

// act(key) for this block's share of a tensor's list, in any order: as much of it as `begin` to
// `end` are of the tensor's tiles.
template <class Thread, class Act>
RW_DEVICE void ForListed(Thread& thread, const GroupView& group, const TensorView& tensor,
                         uint32_t candidates, uint32_t begin, uint32_t end, Act act) {
  constexpr uint32_t kReads = 4;
  const auto place = [&](uint32_t tile) {
    return static_cast<uint32_t>(uint64_t{candidates} * (tile - tensor.first_tile) / tensor.tiles);
  };
  const float* const list = group.candidate_value + tensor.first_candidate;
  const uint32_t until = place(end);
  for (uint32_t first = place(begin) + thread.id(); first < until; first += kReads * kThreads) {
    float read[kReads] = {};  // zeros are never candidates
    for (uint32_t r = 0; r < kReads; ++r) {
      if (until - first > r * kThreads) read[r] = list[first + r * kThreads];
    }
    for (uint32_t r = 0; r < kReads; ++r) act(Thread::Key(read[r]));
  }
}

// The first tile of a block's share, and the block that has a tile.
RW_DEVICE inline uint32_t FirstTile(const GroupView& group, uint32_t block, uint32_t blocks) {
  return static_cast<uint32_t>(uint64_t{group.tiles} * block / blocks);
}
RW_DEVICE inline uint32_t BlockOfTile(const GroupView& group, uint32_t tile, uint32_t blocks) {
  return static_cast<uint32_t>(((uint64_t{tile} + 1) * blocks - 1) / group.tiles);
}

// This block's share of the tiles, cut at the borders of tensors: act(tensor, begin, end).
template <class Thread, class Act>
RW_DEVICE void ForTensors(Thread& thread, const GroupView& group, Act act) {
  const uint32_t end = FirstTile(group, thread.block() + 1, thread.blocks());
  for (uint32_t at = FirstTile(group, thread.block(), thread.blocks()); at < end;) {
    const uint32_t t = group.tile_tensor[at];
    const uint32_t border = group.tensors[t].first_tile + group.tensors[t].tiles;
    const uint32_t until = border < end ? border : end;
    act(t, at, until);
    at = until;
  }
}

}  // namespace ringwood::cuda
