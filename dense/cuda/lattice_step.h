// The kernels of codes (dense/lattice/codes.h), with the bits of its plain loops. A warp has a
// pack of 256 elements, a lane half a column of it, of which each four rows are of one block:
//
//     row 0   │ lane 0  lane 1  … lane 15  │      16 lanes load 64 bytes of a row of floats,
//       ⋮     │                            │      32 of a row of words
//     row 8   │ lane 16 lane 17 … lane 31  │
//       ⋮
//
// The rows of a half take 8 w bits of their column. Where w is odd the two halves share a word: its
// low byte is the last of the upper rows', its high byte the first of the lower ones'.
//
// Generic in the Thread (base/cuda/threads.h). Products, sums and quotients are rounded one by one:
// compile without contraction.
#pragma once

#include "base/cuda/threads.h"
#include "dense/cuda/lattice_view.h"
#include "dense/lattice/codes.h"

namespace ringwood::cuda {

constexpr uint32_t kColumns = 16;
constexpr uint32_t kHalf = 8;       // rows of a lane
constexpr uint32_t kBlockRows = 4;  // of these
constexpr uint32_t kLaneBlocks = kHalf / kBlockRows;
static_assert(kLatticePack == kColumns * 2 * kHalf && kLatticeBlock == kColumns * kBlockRows);

// The codes of a lane, or their sums.
struct LaneCodes {
  uint32_t at[kHalf] = {};
};

// ScaleOf, with the scale's inverse and the magnitude from which on a value waits.
struct LaneScale {
  float scale = 0;
  float inverse = 0;
  float limit = 0;
};

template <class Thread>
RW_DEVICE LaneScale LaneScaleOf(uint32_t reach, int levels) {
  if (reach < kLeastReach) return {};
  constexpr uint32_t kDropped = (1u << 21) - 1;
  const float largest =
      Thread::FromKey(reach << 16) * LatticeHeadroom(levels) / static_cast<float>(levels);
  const float scale = Thread::FromKey((Thread::Key(largest) + kDropped) & ~kDropped);
  return {scale, 1 / scale, scale * 2097152.0f};
}

// Of a pack, in 16 bits: a byte a block, then 16 w words.
RW_DEVICE inline uint16_t* PackAt(const PackedWords& packed, uint64_t pack) {
  return packed.words + pack * (kPackBlocks / 2 + kColumns * static_cast<uint64_t>(packed.width));
}
RW_DEVICE inline ReachWord* ReachesAt(const PackedWords& packed, uint64_t pack) {
  return reinterpret_cast<ReachWord*>(PackAt(packed, pack));
}
RW_DEVICE inline uint16_t* WordsAt(const PackedWords& packed, uint64_t pack) {
  return PackAt(packed, pack) + kPackBlocks / 2;
}

// Where a lane's bits begin in its pack: the word in its column, and whether it shares that.
struct LanePlace {
  uint32_t column = 0;
  uint32_t word = 0;
  bool shares = false;
};
template <class Thread>
RW_DEVICE LanePlace LanePlaceOf(const Thread& thread, int width) {
  const bool lower = thread.lane() >= kColumns;
  return {thread.lane() % kColumns, lower ? static_cast<uint32_t>(width) / 2 : 0,
          lower && width % 2 != 0};
}

// The element of the pack in row `r` of the lane's half.
template <class Thread>
RW_DEVICE uint64_t ElementOf(const Thread& thread, uint32_t r) {
  return (thread.lane() / kColumns * kHalf + r) * kColumns + thread.lane() % kColumns;
}

// The block of the pack that the lane's rows from `kBlockRows` times `of_lane` on are of.
template <class Thread>
RW_DEVICE uint32_t BlockOf(const Thread& thread, uint32_t of_lane) {
  return thread.lane() / kColumns * kLaneBlocks + of_lane;
}

// All lanes of a warp together.
template <class Thread>
RW_DEVICE void PackLane(Thread& thread, const LaneCodes& codes, int width, uint16_t* packed) {
  const LanePlace place = LanePlaceOf(thread, width);
  uint16_t* to = packed + place.word * kColumns + place.column;
  uint16_t* const shared = to;
  uint32_t word = 0, first = 0;
  int bits = place.shares ? 8 : 0;
  bool waits = place.shares;  // the next word is the shared one: its low byte is to come
  for (uint32_t r = 0; r < kHalf; ++r) {
    word |= codes.at[r] << bits;
    bits += width;
    if (bits < 16) continue;
    if (waits) {
      first = word & 0xffffu;
      waits = false;
    } else {
      *to = static_cast<uint16_t>(word);
    }
    to += kColumns;
    word >>= 16;
    bits -= 16;
  }
  const uint32_t low = thread.Shuffle(word, place.column);
  if (place.shares) *shared = static_cast<uint16_t>(first | low);
}

template <class Thread>
RW_DEVICE void AddLane(const Thread& thread, const uint16_t* packed, int width, LaneCodes* codes) {
  const LanePlace place = LanePlaceOf(thread, width);
  const uint16_t* from = packed + place.word * kColumns + place.column;
  const uint32_t mask = (1u << width) - 1;
  uint32_t word = 0;
  int bits = 0;
  if (place.shares) {
    word = static_cast<uint32_t>(*from) >> 8;
    bits = 8;
    from += kColumns;
  }
  for (uint32_t r = 0; r < kHalf; ++r) {
    if (bits < width) {
      word |= static_cast<uint32_t>(*from) << bits;
      bits += 16;
      from += kColumns;
    }
    codes->at[r] += word & mask;
    word >>= width;
    bits -= width;
  }
}

// As PlainQuantise: of one value its code and what stays. `largest`: of this lane, as a key.
template <class Thread>
RW_DEVICE uint32_t Quantise(float value, const LaneScale& scale, int levels, float* stays,
                            uint32_t* largest) {
  const uint32_t key = Thread::Key(value);
  if (key > *largest) *largest = key;
  const auto most = static_cast<float>(levels);
  float quotient = 0;
  if (Thread::FromKey(key) < scale.limit) quotient = value * scale.inverse;
  if (quotient < -most) quotient = -most;
  if (quotient > most) quotient = most;
  // To nearest, ties to even: for magnitudes below 2^22, which codes are.
  constexpr float kToWhole = 12582912.0f;  // 1.5 2^23
  const float code = (quotient + kToWhole) - kToWhole;
  *stays = value - code * scale.scale;
  return static_cast<uint32_t>(static_cast<int>(code) + levels);
}

// AddSource without a partial sum.
template <class Thread>
RW_DEVICE void EncodePacks(Thread& thread, const EncodeView& view) {
  const uint64_t known = LatticePacks(view.elements);
  for (uint64_t p = uint64_t{thread.block()} * kWarps + thread.warp(); p < view.packs;
       p += uint64_t{thread.blocks()} * kWarps) {
    float values[kHalf] = {};
    for (uint32_t r = 0; r < kHalf; ++r) {
      const uint64_t at = p * kLatticePack + ElementOf(thread, r);
      if (at < view.elements) values[r] = view.values[at] + view.error[at];
    }
    LaneCodes codes;
    uint32_t largest[kLaneBlocks] = {};
    for (uint32_t l = 0; l < kLaneBlocks; ++l) {
      LaneScale scale;
      if (p < known) {
        scale = LaneScaleOf<Thread>(view.reach[p * kPackBlocks + BlockOf(thread, l)], view.levels);
      }
      for (uint32_t r = l * kBlockRows; r < (l + 1) * kBlockRows; ++r) {
        float stays = 0;
        codes.at[r] = Quantise<Thread>(values[r], scale, view.levels, &stays, &largest[l]);
        const uint64_t at = p * kLatticePack + ElementOf(thread, r);
        if (at < view.elements) view.next_error[at] = stays;
      }
    }
    PackLane(thread, codes, view.codes.width, WordsAt(view.codes, p));
    for (uint32_t block = 0; block < kPackBlocks; ++block) {
      const uint32_t l = block % kLaneBlocks;
      const uint32_t most = thread.WarpMax(BlockOf(thread, l) == block ? largest[l] : 0);
      if (thread.lane() == block) {
        const BlockReach reach = p < known ? view.reach[p * kPackBlocks + block] : BlockReach{0};
        ReachesAt(view.codes, p)[block] = ReachWordOf(most, reach, view.less);
      }
    }
  }
}

// The sum of all, in any order: they are integers.
template <class Thread>
RW_DEVICE void AddPacks(Thread& thread, const AddView& view) {
  const uint32_t block = thread.lane() % kPackBlocks;
  for (uint64_t p = uint64_t{thread.block()} * kWarps + thread.warp(); p < view.packs;
       p += uint64_t{thread.blocks()} * kWarps) {
    LaneCodes codes;
    AddLane(thread, WordsAt(view.own, p), view.own.width, &codes);
    ReachWord word = ReachesAt(view.own, p)[block];
    for (int other = 0; other < view.others; ++other) {
      const uint64_t at = static_cast<uint64_t>(other) * view.packs + p;
      AddLane(thread, WordsAt(view.rest, at), view.rest.width, &codes);
      const ReachWord told = ReachesAt(view.rest, at)[block];
      if (told > word) word = told;
    }
    PackLane(thread, codes, view.sums.width, WordsAt(view.sums, p));
    if (thread.lane() < kPackBlocks) ReachesAt(view.sums, p)[block] = word;
  }
}

// DecodeSum, and the largest of what blocks reach next.
template <class Thread>
RW_DEVICE void DecodePacks(Thread& thread, const DecodeView& view) {
  uint32_t most = 0;  // of this lane's blocks
  for (uint64_t p = uint64_t{thread.block()} * kWarps + thread.warp();
       p < LatticePacks(view.elements); p += uint64_t{thread.blocks()} * kWarps) {
    LaneCodes codes;
    AddLane(thread, WordsAt(view.sums, p), view.sums.width, &codes);
    for (uint32_t l = 0; l < kLaneBlocks; ++l) {
      const uint16_t reach = view.reach[p * kPackBlocks + BlockOf(thread, l)];
      const float scale = LaneScaleOf<Thread>(reach, view.levels).scale;
      for (uint32_t r = l * kBlockRows; r < (l + 1) * kBlockRows; ++r) {
        const uint64_t at = p * kLatticePack + ElementOf(thread, r);
        const int sum = static_cast<int>(codes.at[r]) - view.terms * view.levels;
        if (at < view.elements) view.values[at] = static_cast<float>(sum) * scale;
      }
    }
    if (thread.lane() < kPackBlocks) {
      const uint64_t block = p * kPackBlocks + thread.lane();
      const BlockReach next = NextReach(view.reach[block], ReachesAt(view.sums, p)[thread.lane()]);
      view.next_reach[block] = next;
      if (next > most) most = next;
    }
  }
  if (most != 0) thread.AtomicMax(view.most, most);
}

}  // namespace ringwood::cuda
