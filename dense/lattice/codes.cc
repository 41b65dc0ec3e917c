#include "dense/lattice/codes.h"

#include <hwy/cache_control.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/unaligned.h"
#include "dense/lattice/kernels.h"

namespace ringwood {
namespace {

// Of the scale and more: a multiple of the scale's last bit and of the value's last bit differ by
// what fp32 holds.
constexpr float kWaiting = 0x1p21f;

struct SimdKernels {
  static constexpr auto Quantise = SimdQuantise;
  static constexpr auto Pack = SimdPack;
  static constexpr auto Unpack = SimdUnpack;
  static constexpr auto AddUnpacked = SimdAddUnpacked;
  static constexpr auto Dequantise = SimdDequantise;
};

struct PlainKernels {
  static constexpr auto Quantise = PlainQuantise;
  static constexpr auto Pack = PlainPack;
  static constexpr auto Unpack = PlainUnpack;
  static constexpr auto AddUnpacked = PlainAddUnpacked;
  static constexpr auto Dequantise = PlainDequantise;
};

using PackWords = std::array<ReachWord, kPackBlocks>;

struct Codes {
  alignas(64) uint16_t values[kLatticePack];
};

size_t PackBytes(int width) { return PackedBytes(kPackBlocks, width); }

PackScales PackScalesOf(const BlockReach* reach, int levels) {
  PackScales scales;
  scales.levels = levels;
  for (size_t b = 0; b < kPackBlocks; ++b) scales.scale[b] = ScaleOf(reach[b], levels);
  for (size_t b = 0; b < kPackBlocks; ++b) {
    const float scale = scales.scale[b];
    scales.inverse[b] = scale == 0 ? 0 : 1 / scale;
    scales.limit[b] = scale * kWaiting;
  }
  return scales;
}

// A pack of `from` whose end lies beyond the tensor's is read and written through whole ones.
template <class Kernels>
PackWords QuantisePack(const LatticeSource& from, size_t pack, Codes* codes) {
  const BlockReach* const reach = from.reach + pack * kPackBlocks;
  const PackScales scales = PackScalesOf(reach, from.levels);
  const size_t begin = pack * kLatticePack;
  const size_t count = std::min(kLatticePack, from.count - begin);
  static constexpr float kZeros[kLatticePack] = {};
  const float* const values = from.values == nullptr ? kZeros : from.values + begin;
  const float* const error = from.error + begin;
  float* const next_error = from.next_error + begin;
  PackLargest largest;
  if (count == kLatticePack) {
    largest = Kernels::Quantise(values, from.weight, error, scales, codes->values, next_error);
  } else {
    float x[kLatticePack] = {}, e[kLatticePack] = {}, next[kLatticePack];
    std::copy_n(values, count, x);
    std::copy_n(error, count, e);
    largest = Kernels::Quantise(x, from.weight, e, scales, codes->values, next);
    std::copy_n(next, count, next_error);
  }
  PackWords words;
  for (size_t b = 0; b < kPackBlocks; ++b) words[b] = ReachWordOf(largest[b], reach[b], from.less);
  return words;
}

PackWords Higher(const PackWords& one, const PackWords& other) {
  PackWords higher;
  for (size_t b = 0; b < kPackBlocks; ++b) higher[b] = std::max(one[b], other[b]);
  return higher;
}

template <class Kernels>
void AddSourceWith(const LatticeSource& from, const std::byte* partial, int terms, std::byte* sum) {
  const int width = terms == 0 ? 0 : LatticeWidth(from.levels, terms);
  const int sum_width = LatticeWidth(from.levels, terms + 1);
  Codes codes;
  for (size_t pack = 0; pack < LatticePacks(from.count); ++pack) {
    PackWords words = QuantisePack<Kernels>(from, pack, &codes);
    if (terms != 0) {
      const std::byte* const other = partial + pack * PackBytes(width);
      words = Higher(words, ElementAt<PackWords>(other, 0));
      Kernels::AddUnpacked(other + sizeof words, width, codes.values);
    }
    std::byte* const to = sum + pack * PackBytes(sum_width);
    SetElement(to, 0, words);
    Kernels::Pack(codes.values, sum_width, to + sizeof words);
  }
}

// Backwards: a pack of the wider sum never reaches a narrower one that is still to be read.
template <class Kernels>
void AddPackedWith(const PackedSum& sum, const std::byte* more, int more_terms, size_t blocks,
                   int levels) {
  const int width = LatticeWidth(levels, sum.terms);
  const int more_width = LatticeWidth(levels, more_terms);
  const int sum_width = LatticeWidth(levels, sum.terms + more_terms);
  Codes codes;
  for (size_t pack = blocks / kPackBlocks; pack-- > 0;) {
    const std::byte* const mine = sum.bytes + pack * PackBytes(width);
    const std::byte* const theirs = more + pack * PackBytes(more_width);
    const PackWords words = Higher(ElementAt<PackWords>(mine, 0), ElementAt<PackWords>(theirs, 0));
    Kernels::Unpack(mine + sizeof words, width, codes.values);
    Kernels::AddUnpacked(theirs + sizeof words, more_width, codes.values);
    std::byte* const to = sum.bytes + pack * PackBytes(sum_width);
    SetElement(to, 0, words);
    Kernels::Pack(codes.values, sum_width, to + sizeof words);
  }
}

template <class Kernels>
void DecodePack(const std::byte* packed, int terms, const LatticeResult& into, size_t pack) {
  const PackScales scales = PackScalesOf(into.reach + pack * kPackBlocks, into.levels);
  Codes codes;
  Kernels::Unpack(packed, LatticeWidth(into.levels, terms), codes.values);
  const int offset = terms * into.levels;
  const size_t begin = pack * kLatticePack;
  const size_t count = std::min(kLatticePack, into.count - begin);
  if (count == kLatticePack) {
    Kernels::Dequantise(codes.values, offset, scales, into.divisor, into.values + begin);
  } else {
    float whole[kLatticePack];
    Kernels::Dequantise(codes.values, offset, scales, into.divisor, whole);
    std::copy_n(whole, count, into.values + begin);
  }
}

template <class Kernels>
void DecodeSumWith(const std::byte* sum, int terms, const LatticeResult& into) {
  const size_t bytes = PackBytes(LatticeWidth(into.levels, terms));
  for (size_t pack = 0; pack < LatticePacks(into.count); ++pack) {
    const std::byte* const from = sum + pack * bytes;
    if (into.values != nullptr) {
      DecodePack<Kernels>(from + sizeof(PackWords), terms, into, pack);
    }
    if (into.next_reach == nullptr) continue;
    const auto words = ElementAt<PackWords>(from, 0);
    for (size_t b = pack * kPackBlocks; b < (pack + 1) * kPackBlocks; ++b) {
      into.next_reach[b] = NextReach(into.reach[b], words[b % kPackBlocks]);
    }
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

size_t PackedBytes(size_t blocks, int width) {
  return blocks * (sizeof(ReachWord) + kLatticeBlock / 8 * static_cast<size_t>(width));
}

BlockReach LessFor(int levels, double wire_reach) {
  if (LatticeHeadroom(levels) > 1) return 0;
  return static_cast<BlockReach>(
      std::lround(-128 * std::log2(std::clamp(wire_reach, kLeastWireReach, 1.0))));
}

float ScaleOf(BlockReach reach, int levels) {
  const float largest = std::bit_cast<float>(static_cast<uint32_t>(reach) << 16);
  // Two bits behind the leading one stay, rounded up.
  constexpr uint32_t kDropped = (1u << 21) - 1;
  const auto bits =
      std::bit_cast<uint32_t>(largest * LatticeHeadroom(levels) / static_cast<float>(levels));
  const float scale = std::bit_cast<float>((bits + kDropped) & ~kDropped);
  return reach < kLeastReach ? 0 : scale;
}

void AddSource(const LatticeSource& from, const std::byte* partial, int terms, std::byte* sum) {
  AddSourceWith<SimdKernels>(from, partial, terms, sum);
  hwy::FlushStream();
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
  hwy::FlushStream();
}

void ReferenceDecodeSum(const std::byte* sum, int terms, const LatticeResult& into) {
  DecodeSumWith<PlainKernels>(sum, terms, into);
}

}  // namespace ringwood
