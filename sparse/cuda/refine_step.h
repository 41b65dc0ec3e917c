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
#include "sparse/cuda/emit_step.h"
#include "sparse/cuda/guess.h"
#include "sparse/cuda/refine_histogram.h"
#include "sparse/cuda/refine_share.h"

namespace ringwood::cuda {

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
