// The refining kernel's body: exact selection of every tensor's picks, by all blocks together.
//
//   phase        reads                             the last block of a tensor then
//   level 0..2   keys that agree with `cut` so far  finds the bin of the rank that is needed
//   count        keys above and equal to `cut`      turns counts into places, decides the next
//   floor emit         the same                           —
//
// A tensor is read from its list of candidates, or, when the list is too short or too long, from
// the whole new residual; both give the same picks, those of SelectPlain (sparse/select.h): largest
// key first, then smallest index, in index order, never ±0, NaN or Inf.
//
// Every block takes an equal, consecutive share of the group's tiles in every phase; between two
// phases all blocks meet (GridSync), so they must all run at once: a cooperative launch.
// Generic in the Thread like accumulate_step.h.
#pragma once

#include "sparse/cuda/scan.h"
#include "sparse/cuda/view.h"

namespace ringwood::cuda {

struct RefineShared {
  uint32_t bins[kBins];
  ScanShared scan;
  uint32_t last;  // this block was the last one to finish its part of a tensor
};

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

// A key is read as 11, 10 and 10 bits; bits above a level's are known when it runs.
RW_DEVICE inline uint32_t ShiftOf(uint32_t level) { return 20 - 10 * level; }
RW_DEVICE inline uint32_t MaskOf(uint32_t level) { return level == 0 ? kBins - 1 : 1023; }

RW_DEVICE inline bool IsSelectable(uint32_t key) { return key != 0 && key < kNonFinite; }

// This block's share of the tiles, cut at the borders of tensors: act(tensor, begin, end).
template <class Thread, class Act>
RW_DEVICE void ForTensors(Thread& thread, const GroupView& group, Act act) {
  const uint64_t tiles = group.tiles;
  const auto end = static_cast<uint32_t>(tiles * (thread.block() + 1) / thread.blocks());
  for (auto at = static_cast<uint32_t>(tiles * thread.block() / thread.blocks()); at < end;) {
    const uint32_t t = group.tile_tensor[at];
    const uint32_t border = group.tensors[t].first_tile + group.tensors[t].tiles;
    const uint32_t until = border < end ? border : end;
    act(t, at, until);
    at = until;
  }
}

// True in all threads of the block that finishes a tensor's phase: everything that other blocks
// wrote in it is visible then.
template <class Thread>
RW_DEVICE bool ArriveLast(Thread& thread, RefineShared& shared, const TensorView& tensor,
                          TensorState& state, uint32_t tiles) {
  thread.Fence();
  thread.Sync();
  if (thread.id() == 0) {
    const uint32_t before = thread.AtomicAdd(&state.arrived, tiles);
    shared.last = before + tiles == tensor.tiles;
    if (shared.last != 0) state.arrived = 0;
  }
  thread.Sync();
  const bool last = shared.last != 0;
  if (last) thread.Fence();
  return last;
}

// From the largest bin down: the bin in which the rank `need` falls joins `cut`.
template <class Thread>
RW_DEVICE void Resolve(Thread& thread, RefineShared& shared, const GroupView& group, uint32_t t,
                       uint32_t level) {
  constexpr uint32_t kPerThread = kBins / kThreads;
  const TensorView& tensor = group.tensors[t];
  TensorState& state = group.states[t];
  uint32_t* const top = group.histogram + uint64_t{t} * kBins + (kBins - 1) -
                        uint64_t{thread.id()} * kPerThread;  // this thread's largest bin
  uint32_t counts[kPerThread];
  uint32_t sum = 0;
  for (uint32_t i = 0; i < kPerThread; ++i) {
    sum += counts[i] = Thread::LoadFresh(top - i);
    *(top - i) = 0;
  }
  const Prefix prefix = BlockExclusive(thread, shared.scan, sum);
  const bool all = level == 0 && prefix.total <= tensor.k;
  const uint32_t need = level == 0 ? tensor.k : state.need;
  thread.Sync();  // every thread has read `need`
  if (thread.id() == 0 && level == 0) {
    state.dense = NeedsWholeResidual(tensor, state);
    state.settled = all;
    state.picked = all ? prefix.total : tensor.k;
    if (all) state.cut = state.need = 0;
  }
  if (all || prefix.before >= need || prefix.before + sum < need) return;
  uint32_t larger = prefix.before;
  uint32_t i = 0;
  while (larger + counts[i] < need) larger += counts[i++];
  const uint32_t bin = kBins - 1 - (thread.id() * kPerThread + i);
  state.cut = (level == 0 ? 0 : state.cut) | bin << ShiftOf(level);
  state.need = need - larger;
}

// The keys that agree with `cut` in the bits above this level, by their bits of this level.
template <class Thread>
RW_DEVICE void CountBins(Thread& thread, RefineShared& shared, const GroupView& group,
                         uint32_t level) {
  ForTensors(thread, group, [&](uint32_t t, uint32_t begin, uint32_t end) {
    const TensorView& tensor = group.tensors[t];
    TensorState& state = group.states[t];
    if (level > 0 && state.settled != 0) return;
    const bool dense = level == 0 ? NeedsWholeResidual(tensor, state) : state.dense != 0;
    const uint32_t known = level == 0 ? 0 : state.cut >> ShiftOf(level - 1);
    for (uint32_t bin = thread.id(); bin < kBins; bin += kThreads) shared.bins[bin] = 0;
    thread.Sync();
    for (uint32_t tile = begin + thread.warp(); tile < end; tile += kWarps) {
      const Items items = ItemsOf(group, tensor, dense, tile);
      for (uint32_t i = thread.lane(); i < items.count; i += kWarp) {
        const uint32_t key = Thread::Key(items.value[i]);
        const bool agrees = level == 0 || key >> ShiftOf(level - 1) == known;
        if (!IsSelectable(key) || !agrees) continue;
        thread.AtomicAdd(&shared.bins[key >> ShiftOf(level) & MaskOf(level)], 1);
      }
    }
    thread.Sync();
    uint32_t* const bins = group.histogram + uint64_t{t} * kBins;
    for (uint32_t bin = thread.id(); bin < kBins; bin += kThreads) {
      if (shared.bins[bin] != 0) thread.AtomicAdd(&bins[bin], shared.bins[bin]);
    }
    if (ArriveLast(thread, shared, tensor, state, end - begin)) {
      Resolve(thread, shared, group, t, level);
    }
    thread.Sync();
  });
}

// The share of the last threshold at which candidates begin follows what it gave: aims at 1.1 to
// 1.4 k, moves back further after a miss, which costs passes over the whole residual.
RW_DEVICE inline float NextGuess(float guess, uint32_t candidates, uint32_t k, bool missed) {
  const float gap = 1 - guess;
  if (missed) return 1 - 2 * gap > 0.7f ? 1 - 2 * gap : 0.7f;
  if (candidates > k + uint64_t{k} * 2 / 5) return 1 - (0.8f * gap > 0.005f ? 0.8f * gap : 0.005f);
  if (candidates < k + k / 10) return 1 - (1.2f * gap < 0.3f ? 1.2f * gap : 0.3f);
  return guess;
}

// The outcome, and a clean state for the next step. Fewer picks than k: all candidates, please.
template <class Thread>
RW_DEVICE void Conclude(const TensorView& tensor, TensorState& state, TensorOutcome& outcome) {
  outcome = {state.picked, state.nonfinite, state.candidates, state.dense};
  if (state.floor > 1 && state.floor < kNonFinite) {  // it came from the guess
    state.guess = NextGuess(state.guess, state.candidates, tensor.k, state.candidates < tensor.k);
  }
  const uint32_t floor =
      state.settled != 0 ? 1 : Thread::Key(state.guess * Thread::FromKey(state.cut));
  state.floor = floor > 1 ? floor : 1;
  state.candidates = 0;
  state.nonfinite = 0;
}

// Turns each tile's counts into the place of its first pick and the ties in tiles before it.
template <class Thread>
RW_DEVICE void PlaceTiles(Thread& thread, RefineShared& shared, const GroupView& group,
                          uint32_t t) {
  const TensorView& tensor = group.tensors[t];
  TensorState& state = group.states[t];
  const uint32_t need = state.need;
  uint32_t larger_before = 0, ties_before = 0;
  for (uint32_t start = 0; start < tensor.tiles; start += kThreads) {
    const bool inside = start + thread.id() < tensor.tiles;
    const uint32_t tile = tensor.first_tile + start + thread.id();
    const uint32_t larger = inside ? Thread::LoadFresh(group.tile_larger + tile) : 0;
    const uint32_t ties = inside ? Thread::LoadFresh(group.tile_ties + tile) : 0;
    const Prefix of_larger = BlockExclusive(thread, shared.scan, larger);
    const Prefix of_ties = BlockExclusive(thread, shared.scan, ties);
    const uint32_t ties_here = ties_before + of_ties.before;
    if (inside) {
      group.tile_larger[tile] =
          larger_before + of_larger.before + (ties_here < need ? ties_here : need);
      group.tile_ties[tile] = ties_here;
    }
    larger_before += of_larger.total;
    ties_before += of_ties.total;
  }
  if (thread.id() == 0) Conclude<Thread>(tensor, state, group.outcomes[t]);
}

template <class Thread>
RW_DEVICE void CountTiles(Thread& thread, RefineShared& shared, const GroupView& group) {
  ForTensors(thread, group, [&](uint32_t t, uint32_t begin, uint32_t end) {
    const TensorView& tensor = group.tensors[t];
    TensorState& state = group.states[t];
    const uint32_t cut = state.cut;
    for (uint32_t tile = begin + thread.warp(); tile < end; tile += kWarps) {
      const Items items = ItemsOf(group, tensor, state.dense != 0, tile);
      uint32_t larger = 0, ties = 0;
      for (uint32_t i = thread.lane(); i < items.count; i += kWarp) {
        const uint32_t key = Thread::Key(items.value[i]);
        larger += IsSelectable(key) && key > cut;
        ties += IsSelectable(key) && key == cut;
      }
      larger = WarpInclusive(thread, larger);
      ties = WarpInclusive(thread, ties);
      if (thread.lane() == kWarp - 1) {
        group.tile_larger[tile] = larger;
        group.tile_ties[tile] = ties;
      }
    }
    if (ArriveLast(thread, shared, tensor, state, end - begin)) {
      PlaceTiles(thread, shared, group, t);
    }
    thread.Sync();
  });
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

template <class Thread>
RW_DEVICE void Refine(Thread& thread, RefineShared& shared, const GroupView& group) {
  for (uint32_t level = 0; level < kLevels; ++level) {
    CountBins(thread, shared, group, level);
    thread.GridSync();
  }
  CountTiles(thread, shared, group);
  thread.GridSync();
  ForTensors(thread, group, [&](uint32_t t, uint32_t begin, uint32_t end) {
    for (uint32_t tile = begin + thread.warp(); tile < end; tile += kWarps) {
      EmitTile(thread, group, t, tile);
    }
  });
}

}  // namespace ringwood::cuda
