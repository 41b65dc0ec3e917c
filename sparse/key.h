// The selection order, the same to the bit on every device: larger key first, then smaller index.
// The key of x is the bits of |x| read as an unsigned integer, which orders finite floats by
// magnitude.
#pragma once

#include <bit>
#include <cstdint>

namespace ringwood {

constexpr uint32_t kSignBit = 0x80000000u;
constexpr uint32_t kFirstNonFiniteKey = 0x7f800000u;  // Inf; NaNs are above

constexpr uint32_t KeyOf(float value) { return std::bit_cast<uint32_t>(value) & ~kSignBit; }
constexpr bool IsFinite(float value) { return KeyOf(value) < kFirstNonFiniteKey; }
constexpr float FromKey(uint32_t key) { return std::bit_cast<float>(key); }

}  // namespace ringwood
