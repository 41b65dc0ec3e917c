// Sums of coarse values (value_code.h), exactly, in as few bits as they need: what reducers send
// where workers send int8, int4 or int2.
//
// Those values are small integers times powers of two, and so are their sums. A run of 64 entries
// has the largest power of two that divides all of them:
//
//     a byte of width w │ a byte e │ w bits an entry, low bits first: q, and the sign above it
//
// Entry = ± q · 2^(e − 149), q < 2^(w − 1). What needs more than 24 bits, or is NaN or Inf, has
// w = 32: the bits of the floats themselves. Nothing is ever rounded, ±0 included.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace ringwood {

inline double PowerOfTwo(int exponent) {  // from -1022 on, to 1023
  return std::bit_cast<double>(static_cast<uint64_t>(exponent + 1023) << 52);
}

uint64_t MaxSumBytes(uint64_t count);  // never less for more

// Returns where they end; `to` has room for MaxSumBytes.
std::byte* EncodeSums(std::span<const float> values, std::byte* to);

// The bytes that were used, or nothing: they end early, or a width is none. Values may be any.
std::optional<uint64_t> DecodeSums(std::span<const std::byte> wire, std::span<float> values);

}  // namespace ringwood
