// bfloat16 as the upper half of a float's bits. Integers only, and included by device code, too.
#pragma once

#include <cstdint>

namespace ringwood {

constexpr uint32_t FloatBitsOf(uint16_t bfloat16) { return static_cast<uint32_t>(bfloat16) << 16; }

// Rounds a float's bits to nearest even. NaNs stay NaNs (quiet), whatever their low bits.
constexpr uint16_t BFloat16BitsOf(uint32_t bits) {
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

}  // namespace ringwood
