// How values stand on the wire. Codes that round are used only from a worker to its first reducer,
// and the worker keeps the rounding error in its residual. Reducers send sums of such values as
// they are: `sums` where the codes are integers, else fp32.
//
//   fp32   4 bytes
//   bf16   2 bytes, round to nearest even
//   int8   runs of 256 entries: an exponent byte, then one signed byte an entry
//   int4   runs of 64 entries: an exponent byte, then half a byte an entry, low half first
//   int2   runs of 64 entries: the bytes of two magnitudes, then a quarter of a byte an entry, low
//          quarter first: which of the two, and the sign above it
//   sums   sum_code.h; any float, exactly
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

// No encoding of `count` values is longer; all but those of kSums are as long.
uint64_t MaxValueBytes(ValueCode code, uint64_t count);

// `wire` has room for MaxValueBytes(code, values.size()). Returns where they end.
std::byte* EncodeValues(ValueCode code, std::span<const float> values, std::byte* wire);

// Values may be any float; false when `wire` is not as long as the code says.
bool DecodeValues(ValueCode code, std::span<const std::byte> wire, std::span<float> values);

}  // namespace ringwood
