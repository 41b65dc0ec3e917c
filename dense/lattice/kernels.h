// The passes over one pack of dense/lattice/codes.h: by Highway, compiled for several instruction
// sets and chosen when the program runs, and as plain loops with the same bits. What Highway's
// write as fp32 may go past the cache: other threads see it after hwy::FlushStream.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "dense/lattice/codes.h"

namespace ringwood {

constexpr size_t kRow = 16;  // elements; a pack has 16 rows, one a bit of a packed word

// Of the blocks of a pack.
struct PackScales {
  float scale[kPackBlocks];
  float inverse[kPackBlocks];  // 0 with the scale
  float limit[kPackBlocks];    // from this magnitude on a value waits
  int levels = 0;
};

// Of each block of a pack the bits of the largest |weight * x + error|, a NaN's above all.
using PackLargest = std::array<uint32_t, kPackBlocks>;

// codes[i] = q + L and next_error[i] of a whole pack, of weight * x + error.
PackLargest SimdQuantise(const float* x, float weight, const float* error, const PackScales& scales,
                         uint16_t* codes, float* next_error);
PackLargest PlainQuantise(const float* x, float weight, const float* error,
                          const PackScales& scales, uint16_t* codes, float* next_error);

// A pack's codes, to and from 32 `width` bytes. AddUnpacked adds them to what is in `codes`.
void SimdPack(const uint16_t* codes, int width, std::byte* packed);
void PlainPack(const uint16_t* codes, int width, std::byte* packed);
void SimdUnpack(const std::byte* packed, int width, uint16_t* codes);
void PlainUnpack(const std::byte* packed, int width, uint16_t* codes);
void SimdAddUnpacked(const std::byte* packed, int width, uint16_t* codes);
void PlainAddUnpacked(const std::byte* packed, int width, uint16_t* codes);

// out[i] = (codes[i] - offset) scale / divisor, of a whole pack.
void SimdDequantise(const uint16_t* codes, int offset, const PackScales& scales, float divisor,
                    float* out);
void PlainDequantise(const uint16_t* codes, int offset, const PackScales& scales, float divisor,
                     float* out);

}  // namespace ringwood
