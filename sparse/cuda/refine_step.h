// The refining kernel's body: exact selection of every tensor's picks, by all blocks together.
//
//   phase      reads                               the last block of a tensor then
//   histogram  keys of the range that is left       finds the bin of the rank that is needed
//   count      keys above that bin; those in it     settles the threshold among those in it, turns
//              go to a short list                   counts into places, decides the next floor
//   emit       the same                                 —
//
// The histogram's range is relative: it begins at the floor of the candidates, near which the
// threshold is. So one round leaves a bin of few keys, and only where it leaves more than kNear is
// there another, of that bin alone; the whole residual takes two or three.
//
// A tensor is read from its list of candidates, or, when the list is too short or too long, from
// the whole new residual; both give the same picks, those of SelectPlain (sparse/select.h): largest
// key first, then smallest index, in index order, never ±0, NaN or Inf.
//
// Every block takes an equal, consecutive share of the group's tiles in every phase; between two
// phases all blocks meet (GridSync), so they must all run at once: a cooperative launch.
// Generic in the Thread (base/cuda/threads.h).
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

// The smallest shift with which the range fits into the histogram.
RW_DEVICE inline Range InBins(uint32_t low, uint32_t end) {
  Range range{low, end, 0};
  while ((end - low - 1) >> range.shift >= kBins) ++range.shift;
  return range;
}

// Candidates lie just above their floor: bins of 2^13 keys cover a factor of four above it, and the
// last bin has all that are larger.
RW_DEVICE inline Range FirstRange(const TensorState& state, bool whole) {
  constexpr uint32_t kShift = 13;
  if (whole || state.floor <= 1) return InBins(1, kNonFinite);
  const Range range = InBins(state.floor, kNonFinite);
  return {range.low, range.end, range.shift < kShift ? range.shift : kShift};
}

RW_DEVICE inline uint32_t BinOf(const Range& range, uint32_t key) {
  const uint32_t bin = (key - range.low) >> range.shift;
  return bin < kBins ? bin : kBins - 1;
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

// The histogram of a tensor is complete: what is left of its range, and whether another round is
// needed.
template <class Thread>
RW_DEVICE void Resolve(Thread& thread, RefineShared& shared, const GroupView& group, uint32_t t,
                       const Range& range, uint32_t round) {
  const TensorView& tensor = group.tensors[t];
  TensorState& state = group.states[t];
  const uint32_t need = round == 0 ? tensor.k : state.need;
  const uint32_t top = kBins - 1 - thread.id() * kBinsPerThread;
  uint32_t* const bins = group.histogram + uint64_t{t} * kBins;
  uint32_t counts[kBinsPerThread];
  for (uint32_t i = 0; i < kBinsPerThread; ++i) {
    counts[i] = Thread::LoadFresh(bins + top - i);
    bins[top - i] = 0;
  }
  const uint32_t total = FindRank(thread, shared, need, top, counts);
  if (thread.id() != 0) return;
  if (round == 0) {
    state.dense = NeedsWholeResidual(tensor, state);
    state.settled = total <= tensor.k;
    state.picked = state.settled != 0 ? total : tensor.k;
  }
  if (state.settled != 0) {  // all that can be selected
    state.cut = state.need = state.open = 0;
    state.end = 1;
    return;
  }
  const Range left = Narrow(range, shared.found.bin);
  state.cut = left.low;
  state.end = left.end;
  state.need = shared.found.need;
  state.open = left.end - left.low > 1 && shared.found.count > kNear;
  if (state.open != 0) thread.AtomicAdd(group.open + round, 1);
}

template <class Thread>
RW_DEVICE void CountBins(Thread& thread, RefineShared& shared, const GroupView& group,
                         uint32_t round) {
  ForTensors(thread, group, [&](uint32_t t, uint32_t begin, uint32_t end) {
    const TensorView& tensor = group.tensors[t];
    TensorState& state = group.states[t];
    if (round > 0 && state.open == 0) return;
    const bool dense = round == 0 ? NeedsWholeResidual(tensor, state) : state.dense != 0;
    const Range range = round == 0 ? FirstRange(state, dense) : InBins(state.cut, state.end);
    for (uint32_t bin = thread.id(); bin < kBins; bin += kThreads) shared.bins[bin] = 0;
    thread.Sync();
    for (uint32_t tile = begin + thread.warp(); tile < end; tile += kWarps) {
      ForKeys(thread, ItemsOf(group, tensor, dense, tile), [&](uint32_t key) {
        if (key < range.low || key >= range.end) return;
        thread.AtomicAdd(&shared.bins[BinOf(range, key)], 1);
      });
    }
    thread.Sync();
    uint32_t* const bins = group.histogram + uint64_t{t} * kBins;
    for (uint32_t bin = thread.id(); bin < kBins; bin += kThreads) {
      if (shared.bins[bin] != 0) thread.AtomicAdd(&bins[bin], shared.bins[bin]);
    }
    if (ArriveLast(thread, shared, tensor, state, end - begin)) {
      Resolve(thread, shared, group, t, range, round);
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

// The threshold among the keys of the list, which is short: one block narrows their range down to
// one key, and adds them to the counts of their tiles.
template <class Thread>
RW_DEVICE void SettleNear(Thread& thread, RefineShared& shared, const GroupView& group,
                          uint32_t t) {
  TensorState& state = group.states[t];
  const uint32_t* const keys = group.near_key + uint64_t{t} * kNear;
  const uint32_t* const tiles = group.near_tile + uint64_t{t} * kNear;
  const uint32_t near = Thread::LoadFresh(&state.near);
  const uint32_t top = kBins - 1 - thread.id() * kBinsPerThread;
  Range range = InBins(state.cut, state.end);
  uint32_t need = state.need;
  while (range.end - range.low > 1) {
    for (uint32_t bin = thread.id(); bin < kBins; bin += kThreads) shared.bins[bin] = 0;
    thread.Sync();
    for (uint32_t i = thread.id(); i < near; i += kThreads) {
      const uint32_t key = Thread::LoadFresh(keys + i);
      if (key < range.low || key >= range.end) continue;
      thread.AtomicAdd(&shared.bins[BinOf(range, key)], 1);
    }
    thread.Sync();
    uint32_t counts[kBinsPerThread];
    for (uint32_t i = 0; i < kBinsPerThread; ++i) counts[i] = shared.bins[top - i];
    FindRank(thread, shared, need, top, counts);
    range = Narrow(range, shared.found.bin);
    need = shared.found.need;
    thread.Sync();  // all have read what was found
  }
  for (uint32_t i = thread.id(); i < near; i += kThreads) {
    const uint32_t key = Thread::LoadFresh(keys + i), tile = Thread::LoadFresh(tiles + i);
    if (key > range.low) thread.AtomicAdd(group.tile_larger + tile, 1);
    if (key == range.low) thread.AtomicAdd(group.tile_ties + tile, 1);
  }
  if (thread.id() == 0) {
    state.cut = range.low;
    state.end = range.end;
    state.need = need;
    state.near = 0;
  }
  thread.Fence();
  thread.Sync();
}

// Turns each tile's counts into the place of its first pick and the ties in tiles before it. A
// thread has kRun tiles at once: one scan is enough for 16 M elements.
template <class Thread>
RW_DEVICE void PlaceTiles(Thread& thread, ScanShared& scan, const GroupView& group, uint32_t t) {
  constexpr uint32_t kRun = 16;
  const TensorView& tensor = group.tensors[t];
  const uint32_t need = group.states[t].need;
  uint32_t larger_before = 0, ties_before = 0;
  for (uint32_t start = 0; start < tensor.tiles; start += kThreads * kRun) {
    const uint32_t first = start + thread.id() * kRun;
    uint32_t larger[kRun], ties[kRun];
    uint32_t larger_sum = 0, ties_sum = 0;
    for (uint32_t i = 0; i < kRun; ++i) {
      const bool inside = first + i < tensor.tiles;
      const uint32_t tile = tensor.first_tile + first + i;
      larger_sum += larger[i] = inside ? Thread::LoadFresh(group.tile_larger + tile) : 0;
      ties_sum += ties[i] = inside ? Thread::LoadFresh(group.tile_ties + tile) : 0;
    }
    const Prefix of_larger = BlockExclusive(thread, scan, larger_sum);
    const Prefix of_ties = BlockExclusive(thread, scan, ties_sum);
    uint32_t larger_here = larger_before + of_larger.before;
    uint32_t ties_here = ties_before + of_ties.before;
    for (uint32_t i = 0; i < kRun; ++i) {
      if (first + i >= tensor.tiles) break;
      const uint32_t tile = tensor.first_tile + first + i;
      group.tile_larger[tile] = larger_here + (ties_here < need ? ties_here : need);
      group.tile_ties[tile] = ties_here;
      larger_here += larger[i];
      ties_here += ties[i];
    }
    larger_before += of_larger.total;
    ties_before += of_ties.total;
  }
}

template <class Thread>
RW_DEVICE void CountTiles(Thread& thread, RefineShared& shared, const GroupView& group) {
  ForTensors(thread, group, [&](uint32_t t, uint32_t begin, uint32_t end) {
    const TensorView& tensor = group.tensors[t];
    TensorState& state = group.states[t];
    const uint32_t cut = state.cut, above = state.end;
    for (uint32_t tile = begin + thread.warp(); tile < end; tile += kWarps) {
      uint32_t larger = 0, ties = 0;
      ForKeys(thread, ItemsOf(group, tensor, state.dense != 0, tile), [&](uint32_t key) {
        if (!IsSelectable(key) || key < cut) return;
        if (key >= above) {
          ++larger;
        } else if (above - cut == 1) {
          ++ties;
        } else {
          const uint64_t place = uint64_t{t} * kNear + thread.AtomicAdd(&state.near, 1);
          group.near_key[place] = key;
          group.near_tile[place] = tile;
        }
      });
      larger = WarpInclusive(thread, larger);
      ties = WarpInclusive(thread, ties);
      if (thread.lane() == kWarp - 1) {
        group.tile_larger[tile] = larger;
        group.tile_ties[tile] = ties;
      }
    }
    if (ArriveLast(thread, shared, tensor, state, end - begin)) {
      if (above - cut > 1) SettleNear(thread, shared, group, t);
      PlaceTiles(thread, shared.scan, group, t);
      if (thread.id() == 0) Conclude<Thread>(tensor, state, group.outcomes[t]);
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
  for (uint32_t round = 0; round < kRounds; ++round) {
    CountBins(thread, shared, group, round);
    thread.GridSync();
    if (Thread::LoadFresh(group.open + round) == 0) break;
  }
  CountTiles(thread, shared, group);
  thread.GridSync();
  ForTensors(thread, group, [&](uint32_t t, uint32_t begin, uint32_t end) {
    for (uint32_t tile = begin + thread.warp(); tile < end; tile += kWarps) {
      EmitTile(thread, group, t, tile);
    }
  });
  if (thread.block() == 0 && thread.id() < kRounds) group.open[thread.id()] = 0;
}

}  // namespace ringwood::cuda
