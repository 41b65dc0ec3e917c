// The refining kernel's body: exact selection of every tensor's picks, by all blocks together.
//
//   phase      reads                               the last block of a tensor then
//   histogram  keys of the range that is left       finds the bin of the rank that is needed
//   count      keys above that bin; those in it     settles the threshold among those in it,
//              go to a short list                   decides the next floor
//   emit       the same                                 —
//
// The histogram's range is relative: it begins at the floor of the candidates and reaches twice as
// far as the last threshold was from it. So one round leaves a bin of few keys, and only where it
// leaves more than kNear is there another, of that bin alone; the whole residual takes two or
// three.
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
#include "sparse/cuda/guess.h"
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
    const auto count = [&](uint32_t key) {
      if (key < range.low || key >= range.end) return;
      thread.AtomicAdd(&shared.bins[BinOf(range, key)], 1);
    };
    if (dense) {
      for (uint32_t tile = begin + thread.warp(); tile < end; tile += kWarps) {
        ForKeys(thread, ItemsOf(group, tensor, dense, tile), count);
      }
    } else {
      ForListed(thread, group, tensor, state.candidates, begin, end, count);
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

// The outcome, and a clean state for the next step. Fewer picks than k: all candidates, please.
template <class Thread>
RW_DEVICE void Conclude(const TensorView& tensor, TensorState& state, TensorOutcome& outcome) {
  outcome = {state.picked, state.nonfinite, state.candidates, state.dense};
  if (state.floor > 1 && state.floor < kNonFinite) {  // it came from the guess
    state.guess = NextGuess(state.guess, state.candidates, tensor.k, tensor.room);
  }
  const uint32_t floor =
      state.settled != 0 ? 1 : Thread::Key(state.guess * Thread::FromKey(state.cut));
  state.floor = floor > 1 ? floor : 1;
  state.reach = state.cut > state.floor ? 2 * (state.cut - state.floor) : 0;
  state.candidates = 0;
  state.nonfinite = 0;
}

// Adds to the counts of a tensor's tile, and to the sums of its block where they are of that
// tensor.
template <class Thread>
RW_DEVICE void AddToTile(Thread& thread, const GroupView& group, uint32_t t, uint32_t tile,
                         uint32_t* of_tiles, uint32_t* of_blocks) {
  thread.AtomicAdd(of_tiles + tile, 1);
  const uint32_t block = BlockOfTile(group, tile, thread.blocks());
  const uint32_t last = FirstTile(group, block + 1, thread.blocks()) - 1;
  const TensorView& tensor = group.tensors[t];
  if (last < tensor.first_tile + tensor.tiles) thread.AtomicAdd(of_blocks + block, 1);
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
    if (key > range.low) {
      AddToTile(thread, group, t, tile, group.tile_larger, group.block_larger);
    } else if (key == range.low) {
      AddToTile(thread, group, t, tile, group.tile_ties, group.block_ties);
    }
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

template <class Thread>
RW_DEVICE void CountTiles(Thread& thread, RefineShared& shared, const GroupView& group) {
  ForTensors(thread, group, [&](uint32_t t, uint32_t begin, uint32_t end) {
    const TensorView& tensor = group.tensors[t];
    TensorState& state = group.states[t];
    const uint32_t cut = state.cut, above = state.end;
    uint32_t larger_sum = 0, ties_sum = 0;  // of the warp's tiles, in its last lane
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
        larger_sum += larger;
        ties_sum += ties;
      }
    }
    const uint32_t block_larger = BlockExclusive(thread, shared.scan, larger_sum).total;
    const uint32_t block_ties = BlockExclusive(thread, shared.scan, ties_sum).total;
    if (thread.id() == 0) {  // the block's last tensor is the last one to write
      group.block_larger[thread.block()] = block_larger;
      group.block_ties[thread.block()] = block_ties;
    }
    if (ArriveLast(thread, shared, tensor, state, end - begin)) {
      if (above - cut > 1) SettleNear(thread, shared, group, t);
      if (thread.id() == 0) Conclude<Thread>(tensor, state, group.outcomes[t]);
    }
    thread.Sync();
  });
}

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
    PlaceTiles(thread, shared.scan, group, t, begin, end);
    for (uint32_t tile = begin + thread.warp(); tile < end; tile += kWarps) {
      EmitTile(thread, group, t, tile);
    }
  });
  if (thread.block() == 0 && thread.id() < kRounds) group.open[thread.id()] = 0;
}

}  // namespace ringwood::cuda
