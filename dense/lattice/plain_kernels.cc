#include <algorithm>
#include <bit>
#include <cmath>

#include "base/unaligned.h"
#include "dense/lattice/codes.h"
#include "dense/lattice/kernels.h"

namespace ringwood {

PackLargest PlainQuantise(const float* x, float weight, const float* error,
                          const PackScales& scales, uint16_t* codes, float* next_error) {
  PackLargest largest = {};
  const auto levels = static_cast<float>(scales.levels);
  for (size_t i = 0; i < kLatticePack; ++i) {
    const size_t block = i / kLatticeBlock;
    uint32_t& most = largest[block];
    const float value = weight * x[i] + error[i];  // -ffp-contract=off: rounded one by one
    const float magnitude = std::fabs(value);
    most = std::max(most, std::bit_cast<uint32_t>(magnitude));
    float quotient = 0;
    if (magnitude < scales.limit[block]) quotient = value * scales.inverse[block];
    const int code = static_cast<int>(std::nearbyint(std::clamp(quotient, -levels, levels)));
    codes[i] = static_cast<uint16_t>(code + scales.levels);
    next_error[i] = value - static_cast<float>(code) * scales.scale[block];  // -0 stays -0
  }
  return largest;
}

// Bit b of row r is bit r w + b of its column; a column's bit n is bit n mod 16 of its word n / 16.
void PlainPack(const uint16_t* codes, int width, std::byte* packed) {
  for (size_t column = 0; column < kRow; ++column) {
    for (int word = 0; word < width; ++word) {
      uint16_t bits = 0;
      for (int b = 0; b < 16; ++b) {
        const int at = word * 16 + b;
        const int code = codes[static_cast<size_t>(at / width) * kRow + column];
        bits = static_cast<uint16_t>(bits | (code >> at % width & 1) << b);
      }
      SetElement(packed, static_cast<size_t>(word) * kRow + column, bits);
    }
  }
}

void PlainUnpack(const std::byte* packed, int width, uint16_t* codes) {
  std::fill_n(codes, kLatticePack, uint16_t{0});
  PlainAddUnpacked(packed, width, codes);
}

void PlainAddUnpacked(const std::byte* packed, int width, uint16_t* codes) {
  for (size_t i = 0; i < kLatticePack; ++i) {
    for (int b = 0; b < width; ++b) {
      const int at = static_cast<int>(i / kRow) * width + b;
      const auto word = ElementAt<uint16_t>(packed, static_cast<size_t>(at / 16) * kRow + i % kRow);
      codes[i] = static_cast<uint16_t>(codes[i] + ((word >> at % 16 & 1) << b));
    }
  }
}

void PlainDequantise(const uint16_t* codes, int offset, const PackScales& scales, float divisor,
                     float* out) {
  for (size_t i = 0; i < kLatticePack; ++i) {
    out[i] = static_cast<float>(codes[i] - offset) * scales.scale[i / kLatticeBlock] / divisor;
  }
}

}  // namespace ringwood
