// Dense gradients as small integers: the codec of the wire formats "int8" and "int4".
//
// A tensor is cut into blocks of 64 elements. All ranks know the same scale s of a block, so that
// what they send adds up as integers, exactly and in any order. Of v = weight x + error a rank
// sends
//
//     q = clamp(round(v / s), -L, L)      L = 127 (int8) or 7 (int4); to nearest, ties to even
//
// and keeps next_error = v - q s. That difference is exact in fp32: s has three significant bits,
// and what is 2^21 times its scale or more is not sent before its scale has grown. So, to the bit,
//
//     Σ fl(weight x + error) = Σ q s + Σ next_error      over all ranks; fl: as fp32 rounds it
//
// The reach of a block is what s comes from: about the largest |v| that any rank had in it in the
// last rounds. Every rank sends a word for its largest |v| beside its codes, sums carry the
// maximum, and after the round all ranks know it: no message of its own is needed. Where the reach
// is not known yet (0) nothing is sent but that, and the values wait in the error. A reach grows at
// once and falls slowly, and L s is a headroom times it, because what is cut off comes a round
// late, which costs SGD more than coarser codes do. Adam, which divides by what gradients mostly
// are, loses more by coarse codes: its ranks tell half of their largest |v| (LessFor;
// docs/dense.md).
//
// Codes travel as c = q + L, sums of n ranks as c = Σ q + n L, in as many bits as 2 n L needs: at
// most b + ⌈log2 n⌉ for codes of b bits, and no sum overflows. Four blocks are packed together: a
// pack takes 32 w bytes with w bits, as 16 rows of 16 elements, bit by bit down the columns, so
// that a vector packs 16 columns at once. Elements beyond the tensor's end are zeros, up to whole
// packs.
//
//     packed form of a pack:   4 words for reaches, a byte each │ 32 w bytes of codes
//
// and that of several one behind the other: what some packs take does not depend on the others.
//
// A kernel each, by Highway, and its plain reference with the same bits. No pointer need be
// aligned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "dense/lattice/reach.h"

namespace ringwood {

constexpr size_t kLatticeBlock = 64;  // elements with one scale
constexpr size_t kPackBlocks = 4;
constexpr size_t kLatticePack = kPackBlocks * kLatticeBlock;  // elements that are packed together

constexpr size_t LatticePacks(size_t elements) {
  return (elements + kLatticePack - 1) / kLatticePack;
}
// Of whole packs, as everywhere below: so many reaches has a tensor.
constexpr size_t LatticeBlocks(size_t elements) { return kPackBlocks * LatticePacks(elements); }

// Of a wire format: 8 of "int8", 4 of "int4", 0 of all others.
int CodeBits(std::string_view wire);

// L of codes of `bits`, 4 or 8.
constexpr int LatticeLevels(int bits) { return (1 << (bits - 1)) - 1; }

// Bits of a sum of `terms` ranks' codes.
int LatticeWidth(int levels, int terms);
// Sums have 16 bits at most: 258 ranks with 8 bits, 4681 with 4.
int MostLatticeTerms(int levels);

size_t PackedBytes(size_t blocks, int width);

// How much larger than the reach a value may be that is sent whole. Exact in fp32; few levels have
// none to spare.
constexpr float LatticeHeadroom(int levels) { return levels > 7 ? 4.0f : 1.0f; }
// As a reach counts: by how much a rank's word for its largest |v| is lowered, to
// `wire_reach` of it; 0 for codes that have headroom. Its own word alone: ranks may differ.
BlockReach LessFor(int levels, double wire_reach);
constexpr double kLeastWireReach = 0.25;
// 0: nothing can be sent. Otherwise L s is the headroom times the reach, or up to a quarter more.
float ScaleOf(BlockReach reach, int levels);

// One rank's part of some packs: arrays of `count` elements that begin with a pack, and a reach of
// each block.
struct LatticeSource {
  const float* values = nullptr;  // x; null: zeros
  const float* error = nullptr;
  float* next_error = nullptr;
  const BlockReach* reach = nullptr;
  size_t count = 0;
  int levels = 0;
  BlockReach less = 0;
  float weight = 1;
};

// sum = partial + codes of `from`; writes next_error. `terms`: of the partial sum, which may not
// overlap the sum; with 0 there is none.
void AddSource(const LatticeSource& from, const std::byte* partial, int terms, std::byte* sum);
void ReferenceAddSource(const LatticeSource& from, const std::byte* partial, int terms,
                        std::byte* sum);

// Packed codes of some packs, the sum of `terms` ranks'.
struct PackedSum {
  std::byte* bytes = nullptr;
  int terms = 0;
};

// sum += more, in place: there is room for all terms, and no overlap.
void AddPacked(const PackedSum& sum, const std::byte* more, int more_terms, size_t blocks,
               int levels);
void ReferenceAddPacked(const PackedSum& sum, const std::byte* more, int more_terms, size_t blocks,
                        int levels);

// What a sum says: `count` elements, divided, and the next reach of each block. Either may be null,
// and is not written.
struct LatticeResult {
  float* values = nullptr;
  const BlockReach* reach = nullptr;
  BlockReach* next_reach = nullptr;
  size_t count = 0;
  int levels = 0;
  float divisor = 1;
};

void DecodeSum(const std::byte* sum, int terms, const LatticeResult& into);
void ReferenceDecodeSum(const std::byte* sum, int terms, const LatticeResult& into);

}  // namespace ringwood
