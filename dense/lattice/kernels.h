// The passes over one block of dense/lattice/codes.h: by Highway, compiled for several instruction
// sets and chosen when the program runs, and as plain loops with the same bits.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ringwood {

constexpr size_t kRow = 16;  // elements; a block has 16 rows, one a bit of a packed word

// Of a block's values while they are encoded.
struct BlockScale {
  float scale = 0;
  float inverse = 0;  // 0 with the scale
  float limit = 0;    // from this magnitude on a value waits
  int levels = 0;
};

// codes[i] = q + L and next_error[i] of a whole block. Returns the bits of the largest |x + error|,
// a NaN's above all.
uint32_t SimdQuantise(const float* x, const float* error, const BlockScale& scale, uint16_t* codes,
                      float* next_error);
uint32_t PlainQuantise(const float* x, const float* error, const BlockScale& scale, uint16_t* codes,
                       float* next_error);

// A block's codes, to and from 32 `width` bytes. AddUnpacked adds them to what is in `codes`.
void SimdPack(const uint16_t* codes, int width, std::byte* packed);
void PlainPack(const uint16_t* codes, int width, std::byte* packed);
void SimdAddUnpacked(const std::byte* packed, int width, uint16_t* codes);
void PlainAddUnpacked(const std::byte* packed, int width, uint16_t* codes);

// out[i] = (codes[i] - offset) scale, of a whole block.
void SimdDequantise(const uint16_t* codes, int offset, float scale, float* out);
void PlainDequantise(const uint16_t* codes, int offset, float scale, float* out);

}  // namespace ringwood
