#include "dense/lattice/codes.h"

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <cstring>

#include "base/unaligned.h"
#include "dense/lattice/kernels.h"

namespace ringwood {
namespace {

// Below it, 2^-96, nothing is sent: scales and their inverses stay normal numbers.
constexpr BlockReach kLeastReach = (127 - 96) << 7;

// Of the scale and more: a multiple of the scale's last bit and of the value's last bit differ by
// what fp32 holds.
constexpr float kWaiting = 0x1p21f;

struct SimdKernels {
  static constexpr auto Quantise = SimdQuantise;
  static constexpr auto Pack = SimdPack;
  static constexpr auto AddUnpacked = SimdAddUnpacked;
  static constexpr auto Dequantise = SimdDequantise;
};

struct PlainKernels {
  static constexpr auto Quantise = PlainQuantise;
  static constexpr auto Pack = PlainPack;
  static constexpr auto AddUnpacked = PlainAddUnpacked;
  static constexpr auto Dequantise = PlainDequantise;
};

struct Codes {
  alignas(64) uint16_t values[kLatticeBlock];
};

BlockScale BlockScaleOf(BlockReach reach, int levels) {
  const float scale = ScaleOf(reach, levels);
  return {scale, scale == 0 ? 0 : 1 / scale, scale * kWaiting, levels};
}

size_t BlockOffset(size_t block, size_t blocks, int width) {
  return blocks * sizeof(BlockReach) + block * (kLatticeBlock / 8) * static_cast<size_t>(width);
}

// A block of `from` whose end lies beyond the tensor's is read and written through whole ones.
template <class Kernels>
BlockReach QuantiseBlock(const LatticeSource& from, size_t block, Codes* codes) {
  const BlockScale scale = BlockScaleOf(from.reach[block], from.levels);
  const size_t begin = block * kLatticeBlock;
  const size_t count = std::min(kLatticeBlock, from.count - begin);
  const float* const values = from.values + begin;
  const float* const error = from.error + begin;
  float* const next_error = from.next_error + begin;
  if (count == kLatticeBlock) {
    return ToldReach(Kernels::Quantise(values, error, scale, codes->values, next_error), from.less);
  }
  float x[kLatticeBlock] = {}, e[kLatticeBlock] = {}, next[kLatticeBlock];
  std::copy_n(values, count, x);
  std::copy_n(error, count, e);
  const uint32_t largest = Kernels::Quantise(x, e, scale, codes->values, next);
  std::copy_n(next, count, next_error);
  return ToldReach(largest, from.less);
}

template <class Kernels>
void AddSourceWith(const LatticeSource& from, const std::byte* partial, int terms, std::byte* sum) {
  const size_t blocks = LatticeBlocks(from.count);
  const int width = terms == 0 ? 0 : LatticeWidth(from.levels, terms);
  const int sum_width = LatticeWidth(from.levels, terms + 1);
  Codes codes;
  for (size_t block = 0; block < blocks; ++block) {
    BlockReach reach = QuantiseBlock<Kernels>(from, block, &codes);
    if (terms != 0) {
      reach = std::max(reach, ElementAt<BlockReach>(partial, block));
      Kernels::AddUnpacked(partial + BlockOffset(block, blocks, width), width, codes.values);
    }
    SetElement(sum, block, reach);
    Kernels::Pack(codes.values, sum_width, sum + BlockOffset(block, blocks, sum_width));
  }
}

// Backwards: a block of the wider sum never reaches a narrower one that is still to be read.
template <class Kernels>
void AddPackedWith(const PackedSum& sum, const std::byte* more, int more_terms, size_t blocks,
                   int levels) {
  const int width = LatticeWidth(levels, sum.terms);
  const int more_width = LatticeWidth(levels, more_terms);
  const int sum_width = LatticeWidth(levels, sum.terms + more_terms);
  Codes codes;
  for (size_t block = blocks; block-- > 0;) {
    std::fill_n(codes.values, kLatticeBlock, uint16_t{0});
    Kernels::AddUnpacked(sum.bytes + BlockOffset(block, blocks, width), width, codes.values);
    Kernels::AddUnpacked(more + BlockOffset(block, blocks, more_width), more_width, codes.values);
    Kernels::Pack(codes.values, sum_width, sum.bytes + BlockOffset(block, blocks, sum_width));
    SetElement(
        sum.bytes, block,
        std::max(ElementAt<BlockReach>(sum.bytes, block), ElementAt<BlockReach>(more, block)));
  }
}

template <class Kernels>
void DecodeSumWith(const std::byte* sum, int terms, const LatticeResult& into) {
  const size_t blocks = LatticeBlocks(into.count);
  const int width = LatticeWidth(into.levels, terms);
  Codes codes;
  for (size_t block = 0; block < blocks; ++block) {
    const float scale = ScaleOf(into.reach[block], into.levels);
    std::fill_n(codes.values, kLatticeBlock, uint16_t{0});
    Kernels::AddUnpacked(sum + BlockOffset(block, blocks, width), width, codes.values);
    const size_t begin = block * kLatticeBlock;
    const size_t count = std::min(kLatticeBlock, into.count - begin);
    if (count == kLatticeBlock) {
      Kernels::Dequantise(codes.values, terms * into.levels, scale, into.values + begin);
    } else {
      float whole[kLatticeBlock];
      Kernels::Dequantise(codes.values, terms * into.levels, scale, whole);
      std::copy_n(whole, count, into.values + begin);
    }
    into.next_reach[block] = NextReach(into.reach[block], ElementAt<BlockReach>(sum, block));
  }
}

}  // namespace

int CodeBits(std::string_view wire) {
  if (wire == "int8") return 8;
  return wire == "int4" ? 4 : 0;
}

int LatticeWidth(int levels, int terms) {
  return static_cast<int>(
      std::bit_width(2u * static_cast<unsigned>(levels) * static_cast<unsigned>(terms)));
}

int MostLatticeTerms(int levels) { return 0xffff / (2 * levels); }

size_t PackedBytes(size_t blocks, int width) { return BlockOffset(blocks, blocks, width); }

BlockReach LessFor(int levels, double wire_reach) {
  if (LatticeHeadroom(levels) > 1) return 0;
  return static_cast<BlockReach>(
      std::lround(-128 * std::log2(std::clamp(wire_reach, kLeastWireReach, 1.0))));
}

float ScaleOf(BlockReach reach, int levels) {
  if (reach < kLeastReach) return 0;
  const float largest = std::bit_cast<float>(static_cast<uint32_t>(reach) << 16);
  // Two bits behind the leading one stay, rounded up.
  constexpr uint32_t kDropped = (1u << 21) - 1;
  const auto bits =
      std::bit_cast<uint32_t>(largest * LatticeHeadroom(levels) / static_cast<float>(levels));
  return std::bit_cast<float>((bits + kDropped) & ~kDropped);
}

BlockReach LargestReach(int terms) {
  // A scale rounded up, and the headroom.
  const float largest =
      FLT_MAX / (2 * LatticeHeadroom(LatticeLevels(8)) * static_cast<float>(terms));
  return static_cast<BlockReach>(std::bit_cast<uint32_t>(largest) >> 16);
}

void AddSource(const LatticeSource& from, const std::byte* partial, int terms, std::byte* sum) {
  AddSourceWith<SimdKernels>(from, partial, terms, sum);
}

void ReferenceAddSource(const LatticeSource& from, const std::byte* partial, int terms,
                        std::byte* sum) {
  AddSourceWith<PlainKernels>(from, partial, terms, sum);
}

void AddPacked(const PackedSum& sum, const std::byte* more, int more_terms, size_t blocks,
               int levels) {
  AddPackedWith<SimdKernels>(sum, more, more_terms, blocks, levels);
}

void ReferenceAddPacked(const PackedSum& sum, const std::byte* more, int more_terms, size_t blocks,
                        int levels) {
  AddPackedWith<PlainKernels>(sum, more, more_terms, blocks, levels);
}

void DecodeSum(const std::byte* sum, int terms, const LatticeResult& into) {
  DecodeSumWith<SimdKernels>(sum, terms, into);
}

void ReferenceDecodeSum(const std::byte* sum, int terms, const LatticeResult& into) {
  DecodeSumWith<PlainKernels>(sum, terms, into);
}

}  // namespace ringwood
