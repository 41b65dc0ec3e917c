// How values stand on the wire. Coarser codes than fp32 are used only from a worker to its first
// reducer, and the worker keeps the rounding error in its residual.
//
//   fp32   4 bytes
//   bf16   2 bytes, round to nearest even
//   int8   runs of 256 entries: an exponent byte, then one signed byte an entry
//   int4   runs of 64 entries: an exponent byte, then half a byte an entry, low half first
//   int2   runs of 64 entries: the bytes of two magnitudes, then a quarter of a byte an entry, low
//          quarter first: which of the two, and the sign above it
//
// Of int2 byte b means 2^(b − 128), 0 means 0: the largest power of two that is not above the run's
// smallest value (0 if it is below 2^-127, or 2^-20 of the other), and the one nearest to its
// largest. A value becomes the nearer one. The selected entries of a block are of one order of
// magnitude, or two.
//
// A run's scale is a power of two, 2^(byte − 133) or 2^(byte − 129) for int4: the smallest whose
// multiples reach the run's largest value. So v − q·scale is exact in float and no mass is lost,
// and rounding twice is rounding once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "sparse/codec.h"

namespace ringwood {

uint64_t ValueBytes(ValueCode code, uint64_t count);  // exactly

// `wire` has ValueBytes(code, values.size()) bytes.
void EncodeValues(ValueCode code, std::span<const float> values, std::byte* wire);
// Any bytes are allowed: each bit pattern means some float.
void DecodeValues(ValueCode code, const std::byte* wire, std::span<float> values);

}  // namespace ringwood
