// The 16-bit floats, as bit patterns, to and from fp32; rounding is to nearest even.
#pragma once

#include <bit>
#include <cstdint>

#include "dense/arithmetic/bfloat16_bits.h"

namespace ringwood {

inline float FromBFloat16(uint16_t bits) { return std::bit_cast<float>(FloatBitsOf(bits)); }

inline uint16_t ToBFloat16(float value) { return BFloat16BitsOf(std::bit_cast<uint32_t>(value)); }

// IEEE 754 binary16: 1 sign, 5 exponent (bias 15), 10 mantissa bits.
inline float FromFloat16(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const uint32_t magnitude = bits & 0x7fff;
  if (magnitude >= 0x7c00) {  // infinity or NaN
    return std::bit_cast<float>(sign | 0x7f800000u | (magnitude & 0x3ff) << 13);
  }
  // A subnormal half is a small integer times 2^-24; a normal one only needs another bias.
  const float value = magnitude < 0x400 ? static_cast<float>(magnitude) * 0x1p-24f
                                        : std::bit_cast<float>((magnitude << 13) + (112u << 23));
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(value));
}

inline uint16_t ToFloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint16_t sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return sign | 0x7e00 | (magnitude >> 13 & 0x3ff);
  if (magnitude >= 0x477ff000u) return sign | 0x7c00;  // 65520 and above round to infinity
  if (magnitude < 0x38800000u) {
    // Below 2^-14: adding 0.5 moves the result's last place to 2^-24, and the FPU rounds.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u));
  }
  const uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
  return static_cast<uint16_t>(sign | ((rounded >> 13) - (112u << 10)));
}

}  // namespace ringwood
