// The kernels of codes (dense/lattice/codes.h), with the bits of its plain loops. A warp has a
// block of 256 elements, a lane half a column of it:
//
//     row 0   │ lane 0  lane 1  … lane 15  │      a load of 16 lanes is 64 bytes in a row of
//     floats,
//       ⋮     │                            │      32 in a row of words
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
constexpr uint32_t kHalf = 8;  // rows of a lane
static_assert(kLatticeBlock == kColumns * 2 * kHalf);

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
  constexpr uint32_t kLeast = (127 - 96) << 7;
  if (reach < kLeast) return {};
  constexpr uint32_t kDropped = (1u << 21) - 1;
  const float largest =
      Thread::FromKey(reach << 16) * LatticeHeadroom(levels) / static_cast<float>(levels);
  const float scale = Thread::FromKey((Thread::Key(largest) + kDropped) & ~kDropped);
  return {scale, 1 / scale, scale * 2097152.0f};
}

// Words of a part: a reach a block, then 16 w words a block.
RW_DEVICE inline uint64_t PartWords(const PackedParts& parts) {
  return parts.part * (1 + kColumns * static_cast<uint64_t>(parts.width));
}
RW_DEVICE inline uint16_t* ReachAt(const PackedParts& parts, uint64_t part, uint64_t block) {
  return parts.words + part * PartWords(parts) + block;
}
RW_DEVICE inline uint16_t* WordsAt(const PackedParts& parts, uint64_t part, uint64_t block) {
  return parts.words + part * PartWords(parts) + parts.part +
         block * kColumns * static_cast<uint64_t>(parts.width);
}

// Where a lane's bits begin in its block: the word in its column, and whether it shares that.
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

// The element of the block in row `r` of the lane's half.
template <class Thread>
RW_DEVICE uint64_t ElementOf(const Thread& thread, uint32_t r) {
  return (thread.lane() / kColumns * kHalf + r) * kColumns + thread.lane() % kColumns;
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

// AddSource without a partial sum, of all parts.
template <class Thread>
RW_DEVICE void EncodeParts(Thread& thread, const EncodeView& view) {
  const uint64_t known = (view.elements + kLatticeBlock - 1) / kLatticeBlock;
  for (uint64_t b = uint64_t{thread.block()} * kWarps + thread.warp(); b < view.blocks;
       b += uint64_t{thread.blocks()} * kWarps) {
    const uint64_t part = b / view.codes.part;
    PackedParts out = view.codes;
    if (part == view.own_part) out.words = view.own_words;
    LaneScale scale;
    if (b < known) scale = LaneScaleOf<Thread>(view.reach[b], view.levels);
    float values[kHalf] = {};
    for (uint32_t r = 0; r < kHalf; ++r) {
      const uint64_t at = b * kLatticeBlock + ElementOf(thread, r);
      if (at < view.elements) values[r] = view.values[at] + view.error[at];
    }
    LaneCodes codes;
    uint32_t largest = 0;
    for (uint32_t r = 0; r < kHalf; ++r) {
      float stays = 0;
      codes.at[r] = Quantise<Thread>(values[r], scale, view.levels, &stays, &largest);
      const uint64_t at = b * kLatticeBlock + ElementOf(thread, r);
      if (at < view.elements) view.next_error[at] = stays;
    }
    const uint64_t in_part = b - part * view.codes.part;
    PackLane(thread, codes, out.width, WordsAt(out, part, in_part));
    const uint32_t of_block = thread.WarpMax(largest);
    if (thread.lane() == 0) {
      *ReachAt(out, part, in_part) = ToldReach(of_block, view.less);
    }
  }
}

// The sum of all ranks' codes.
template <class Thread>
RW_DEVICE void AddParts(Thread& thread, const AddView& view) {
  for (uint64_t b = uint64_t{thread.block()} * kWarps + thread.warp(); b < view.codes.part;
       b += uint64_t{thread.blocks()} * kWarps) {
    LaneCodes codes;
    uint32_t reach = 0;
    for (int rank = 0; rank < view.ranks; ++rank) {
      const auto part = static_cast<uint64_t>(rank);
      AddLane(thread, WordsAt(view.codes, part, b), view.codes.width, &codes);
      const uint32_t seen = *ReachAt(view.codes, part, b);
      if (seen > reach) reach = seen;
    }
    PackLane(thread, codes, view.sums.width, WordsAt(view.sums, view.sum_part, b));
    if (thread.lane() == 0) {
      *ReachAt(view.sums, view.sum_part, b) = static_cast<uint16_t>(reach);
    }
  }
}

// DecodeSum, of all parts, and the largest of what blocks reach next.
template <class Thread>
RW_DEVICE void DecodeParts(Thread& thread, const DecodeView& view) {
  const uint64_t blocks = (view.elements + kLatticeBlock - 1) / kLatticeBlock;
  uint32_t most = 0;
  for (uint64_t b = uint64_t{thread.block()} * kWarps + thread.warp(); b < blocks;
       b += uint64_t{thread.blocks()} * kWarps) {
    const uint64_t part = b / view.sums.part, in_part = b - part * view.sums.part;
    const float scale = LaneScaleOf<Thread>(view.reach[b], view.levels).scale;
    LaneCodes codes;
    AddLane(thread, WordsAt(view.sums, part, in_part), view.sums.width, &codes);
    for (uint32_t r = 0; r < kHalf; ++r) {
      const uint64_t at = b * kLatticeBlock + ElementOf(thread, r);
      const int sum = static_cast<int>(codes.at[r]) - view.terms * view.levels;
      if (at < view.elements) view.values[at] = static_cast<float>(sum) * scale;
    }
    const BlockReach next = NextReach(view.reach[b], *ReachAt(view.sums, part, in_part));
    if (thread.lane() == 0) view.next_reach[b] = next;
    if (next > most) most = next;
  }
  if (thread.lane() == 0 && most != 0) thread.AtomicMax(view.most, most);
}

}  // namespace ringwood::cuda
