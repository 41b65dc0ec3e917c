// Dense gradients as small integers: the codec of the wire formats "int8" and "int4".
//
// A tensor is cut into blocks of 256 elements. All ranks know the same scale s of a block, so that
// what they send adds up as integers, exactly and in any order. Of v = x + error a rank sends
//
//     q = clamp(round(v / s), -L, L)      L = 127 (int8) or 7 (int4); to nearest, ties to even
//
// and keeps next_error = v - q s. That difference is exact in fp32: s has three significant bits,
// and what is 2^21 times its scale or more is not sent before its scale has grown. So, to the bit,
//
//     Σ fl(x + error) = Σ q s + Σ next_error      over all ranks; fl: fp32's rounding of one sum
//
// The reach of a block is what s comes from: about the largest |v| that any rank had in it in the
// last rounds. Every rank sends its largest |v| beside its codes, sums carry the maximum, and after
// the round all ranks know it: no message of its own is needed. Where the reach is not known yet
// (0) nothing is sent but that, and the values wait in the error. A reach grows at once and falls
// slowly, and L s is a headroom times it, because what is cut off comes a round late, which costs
// SGD more than coarser codes do. Adam, which divides by what gradients mostly are, loses more by
// coarse codes: its ranks tell half of their largest |v| (LessFor; docs/dense.md).
//
// Codes travel as c = q + L, sums of n ranks as c = Σ q + n L, in as many bits as 2 n L needs: at
// most b + ⌈log2 n⌉ for codes of b bits, and no sum overflows. A block of w bits takes 32 w bytes:
// as 16 rows of 16 elements, bit by bit down the columns, so that a vector packs 16 columns at
// once. Elements beyond the tensor's end are zeros.
//
//     packed form of n blocks:   n reaches of 2 bytes │ n blocks of 32 w bytes
//
// A kernel each, by Highway, and its plain reference with the same bits. No pointer need be
// aligned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ringwood {

constexpr size_t kLatticeBlock = 256;  // elements

constexpr size_t LatticeBlocks(size_t elements) {
  return (elements + kLatticeBlock - 1) / kLatticeBlock;
}

// Of a wire format: 8 of "int8", 4 of "int4", 0 of all others.
int CodeBits(std::string_view wire);

// L of codes of `bits`, 4 or 8.
constexpr int LatticeLevels(int bits) { return (1 << (bits - 1)) - 1; }

// Bits of a sum of `terms` ranks' codes.
int LatticeWidth(int levels, int terms);
// Sums have 16 bits at most: 258 ranks with 8 bits, 4681 with 4.
int MostLatticeTerms(int levels);

size_t PackedBytes(size_t blocks, int width);

// The upper half of an fp32 magnitude's bits, rounded up; it orders like the magnitude.
using BlockReach = uint16_t;

// What a rank tells of a block whose largest |v| has these bits: `less` lower, but for NaN and Inf.
constexpr BlockReach ToldReach(uint32_t largest, BlockReach less) {
  const uint32_t seen = (largest + 0xffffu) >> 16;
  if (seen >= 0x7f80) return static_cast<BlockReach>(seen);
  return static_cast<BlockReach>(seen > less ? seen - less : 0);
}
// Of a block after a round: `seen` is the largest of all ranks. In the logarithm a reach falls by a
// quarter of the way, and by a quarter of an octave at most: it stays near the largest of several
// rounds, and gets over one that was a thousand times as large in forty.
constexpr BlockReach NextReach(BlockReach reach, BlockReach seen) {
  if (seen >= reach) return seen;
  constexpr int kMostFall = 1 << 5;
  const int way = (reach - seen) / 4;
  const int fall = way < kMostFall ? way : kMostFall;
  return reach > fall ? static_cast<BlockReach>(reach - fall) : BlockReach{0};
}
// How much larger than the reach a value may be that is sent whole. Exact in fp32; few levels have
// none to spare.
constexpr float LatticeHeadroom(int levels) { return levels > 7 ? 4.0f : 1.0f; }
// In 1/128 octaves, as a reach counts: by how much a rank's word for its largest |v| is lowered, to
// `wire_reach` of it; 0 for codes that have headroom. Its own word alone: ranks may differ.
BlockReach LessFor(int levels, double wire_reach);
constexpr double kLeastWireReach = 0.25;
// 0: nothing can be sent. Otherwise L s is the headroom times the reach, or up to a quarter more.
float ScaleOf(BlockReach reach, int levels);
// Above it a sum over `terms` ranks could overflow; a NaN's and an Inf's are.
BlockReach LargestReach(int terms);

// One rank's part of some blocks: arrays of `count` elements that begin with a block, and a reach a
// block.
struct LatticeSource {
  const float* values = nullptr;
  const float* error = nullptr;
  float* next_error = nullptr;
  const BlockReach* reach = nullptr;
  size_t count = 0;
  int levels = 0;
  BlockReach less = 0;
};

// sum = partial + codes of `from`; writes next_error. `terms`: of the partial sum, which may not
// overlap the sum; with 0 there is none.
void AddSource(const LatticeSource& from, const std::byte* partial, int terms, std::byte* sum);
void ReferenceAddSource(const LatticeSource& from, const std::byte* partial, int terms,
                        std::byte* sum);

// Packed codes of some blocks, the sum of `terms` ranks'.
struct PackedSum {
  std::byte* bytes = nullptr;
  int terms = 0;
};

// sum += more, in place: there is room for all terms, and no overlap.
void AddPacked(const PackedSum& sum, const std::byte* more, int more_terms, size_t blocks,
               int levels);
void ReferenceAddPacked(const PackedSum& sum, const std::byte* more, int more_terms, size_t blocks,
                        int levels);

// What a sum says: `count` elements, and the next reach of each block.
struct LatticeResult {
  float* values = nullptr;
  const BlockReach* reach = nullptr;
  BlockReach* next_reach = nullptr;
  size_t count = 0;
  int levels = 0;
};

void DecodeSum(const std::byte* sum, int terms, const LatticeResult& into);
void ReferenceDecodeSum(const std::byte* sum, int terms, const LatticeResult& into);

}  // namespace ringwood
