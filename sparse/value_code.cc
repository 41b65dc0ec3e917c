#include "sparse/value_code.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "sparse/bits/sum_code.h"
#include "sparse/key.h"

namespace ringwood {
namespace {

constexpr double kLargest = FromKey(kFirstNonFiniteKey - 1);

// One integer code: entries a run, and the largest integer.
struct IntegerCode {
  uint64_t run;
  int bits;
  // Byte 0 means 2^-bias; byte 255 the scale that the largest float needs, 2^(130 - bits).
  int bias() const { return 125 + bits; }
  int largest() const { return (1 << (bits - 1)) - 1; }
  uint64_t RunBytes(uint64_t entries) const { return 1 + (entries * bits + 7) / 8; }
};

IntegerCode IntegerCodeOf(ValueCode code) {
  return code == ValueCode::kInt8 ? IntegerCode{256, 8} : IntegerCode{64, 4};
}

// Two magnitudes for a run, and two bits for an entry.
constexpr uint64_t kTableRun = 64;
constexpr int kTableBias = 128;
// Of the exponents of a run's two magnitudes: what a value differs by from the lower one is exact.
constexpr int kTableSpan = 20;

uint64_t TableRunBytes(uint64_t entries) { return 2 + (entries + 3) / 4; }

uint16_t ToBFloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if (!IsFinite(value))
    return static_cast<uint16_t>(bits >> 16 | ((bits & 0xffff) != 0 ? 0x40 : 0));
  const uint32_t rounded = bits + 0x7fff + (bits >> 16 & 1);
  // Rounding up to infinity would send what cannot be taken back: the largest finite value instead.
  const bool overflow = (rounded & ~kSignBit) >= kFirstNonFiniteKey;
  return static_cast<uint16_t>((overflow ? bits : rounded) >> 16);
}

int Quantize(float value, double inverse, int largest) {
  if (!IsFinite(value)) return 0;  // never picked
  const long integer = std::lrint(static_cast<double>(value) * inverse);
  return static_cast<int>(std::clamp<long>(integer, -largest, largest));
}

// The exponent of the smallest scale at which `most` is at most code.largest() after rounding.
int ExponentFor(float most, const IntegerCode& code) {
  int exponent = 0;
  std::frexp(most, &exponent);
  exponent -= code.bits - 1;
  if (std::lrint(most * PowerOfTwo(-exponent)) > code.largest()) ++exponent;
  return std::clamp(exponent, -code.bias(), 255 - code.bias());
}

void EncodeRun(const IntegerCode& code, std::span<const float> values, std::byte* wire) {
  float most = 0;
  for (float value : values) {
    if (IsFinite(value)) most = std::max(most, std::fabs(value));
  }
  const int exponent = most == 0 ? -code.bias() : ExponentFor(most, code);
  const double inverse = PowerOfTwo(-exponent);
  *wire++ = static_cast<std::byte>(exponent + code.bias());
  if (code.bits == 8) {
    for (float value : values) *wire++ = static_cast<std::byte>(Quantize(value, inverse, 127));
    return;
  }
  for (size_t i = 0; i < values.size(); i += 2) {
    const int low = Quantize(values[i], inverse, 7);
    const int high = i + 1 < values.size() ? Quantize(values[i + 1], inverse, 7) : 0;
    *wire++ = static_cast<std::byte>((low & 15) | (high & 15) << 4);
  }
}

void DecodeRun(const IntegerCode& code, const std::byte* wire, std::span<float> values) {
  const double scale = PowerOfTwo(static_cast<int>(*wire++) - code.bias());
  for (size_t i = 0; i < values.size(); ++i) {
    int integer;
    if (code.bits == 8) {
      integer = static_cast<int8_t>(wire[i]);
    } else {
      const int half = static_cast<int>(wire[i / 2]) >> (i % 2 * 4) & 15;
      integer = half >= 8 ? half - 16 : half;
    }
    // Half of the largest integer times the largest scale is 2^128; FLT_MAX is what rounded to it.
    values[i] = static_cast<float>(std::clamp(integer * scale, -kLargest, kLargest));
  }
}

// 0 of byte 0.
float MagnitudeOf(int byte) {
  return byte == 0 ? 0 : static_cast<float>(PowerOfTwo(byte - kTableBias));
}

// Of the largest power of two that is not above `value`; with `nearest` of the nearest one.
int MagnitudeByte(float value, bool nearest) {
  if (value == 0) return 0;
  int exponent = 0;
  const float fraction = std::frexp(value, &exponent);  // in [0.5, 1)
  exponent += nearest && fraction >= 0.75f ? 0 : -1;
  const int byte = std::min(exponent, 127) + kTableBias;
  return std::max(byte, 0);
}

void EncodeTableRun(std::span<const float> values, std::byte* wire) {
  float least = kLargest, most = 0;
  for (float value : values) {
    const float magnitude = IsFinite(value) ? std::fabs(value) : 0;  // never picked
    least = std::min(least, magnitude);
    most = std::max(most, magnitude);
  }
  int bytes[] = {MagnitudeByte(least, false), MagnitudeByte(most, true)};
  if (bytes[0] < bytes[1] - kTableSpan) bytes[0] = 0;
  wire[0] = static_cast<std::byte>(bytes[0]);
  wire[1] = static_cast<std::byte>(bytes[1]);
  const double low = MagnitudeOf(bytes[0]), high = MagnitudeOf(bytes[1]);
  std::fill_n(wire + 2, (values.size() + 3) / 4, std::byte{0});
  for (size_t i = 0; i < values.size(); ++i) {
    const double magnitude = IsFinite(values[i]) ? std::fabs(values[i]) : 0;
    const unsigned code =
        (std::signbit(values[i]) ? 2u : 0u) | (high - magnitude < magnitude - low);
    wire[2 + i / 4] |= static_cast<std::byte>(code << (i % 4 * 2));
  }
}

void DecodeTableRun(const std::byte* wire, std::span<float> values) {
  const float low = MagnitudeOf(static_cast<int>(wire[0]));
  const float high = MagnitudeOf(static_cast<int>(wire[1]));
  const float table[] = {low, high, -low, -high};
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = table[static_cast<int>(wire[2 + i / 4]) >> (i % 4 * 2) & 3];
  }
}

}  // namespace

uint64_t MaxValueBytes(ValueCode code, uint64_t count) {
  if (code == ValueCode::kSums) return MaxSumBytes(count);
  if (code == ValueCode::kFloat32) return 4 * count;
  if (code == ValueCode::kBFloat16) return 2 * count;
  if (code == ValueCode::kInt2) {
    const uint64_t rest = count % kTableRun;
    return count / kTableRun * TableRunBytes(kTableRun) + (rest > 0 ? TableRunBytes(rest) : 0);
  }
  const IntegerCode integer = IntegerCodeOf(code);
  const uint64_t rest = count % integer.run;
  return count / integer.run * integer.RunBytes(integer.run) +
         (rest > 0 ? integer.RunBytes(rest) : 0);
}

std::byte* EncodeValues(ValueCode code, std::span<const float> values, std::byte* wire) {
  if (values.empty()) return wire;
  if (code == ValueCode::kSums) return EncodeSums(values, wire);
  std::byte* const end = wire + MaxValueBytes(code, values.size());
  if (code == ValueCode::kFloat32) {
    std::memcpy(wire, values.data(), values.size_bytes());
  } else if (code == ValueCode::kBFloat16) {
    for (size_t i = 0; i < values.size(); ++i) {
      const uint16_t half = ToBFloat16(values[i]);
      std::memcpy(wire + 2 * i, &half, 2);
    }
  } else if (code == ValueCode::kInt2) {
    for (size_t at = 0; at < values.size(); at += kTableRun) {
      EncodeTableRun(values.subspan(at, std::min(kTableRun, values.size() - at)), wire);
      wire += TableRunBytes(kTableRun);
    }
  } else {
    const IntegerCode integer = IntegerCodeOf(code);
    for (size_t at = 0; at < values.size(); at += integer.run) {
      EncodeRun(integer, values.subspan(at, std::min(integer.run, values.size() - at)), wire);
      wire += integer.RunBytes(integer.run);
    }
  }
  return end;
}

bool DecodeValues(ValueCode code, std::span<const std::byte> bytes, std::span<float> values) {
  if (code == ValueCode::kSums) return DecodeSums(bytes, values) == bytes.size();
  if (bytes.size() != MaxValueBytes(code, values.size())) return false;
  if (values.empty()) return true;
  const std::byte* wire = bytes.data();
  if (code == ValueCode::kFloat32) {
    std::memcpy(values.data(), wire, values.size_bytes());
  } else if (code == ValueCode::kBFloat16) {
    for (size_t i = 0; i < values.size(); ++i) {
      uint16_t half;
      std::memcpy(&half, wire + 2 * i, 2);
      values[i] = std::bit_cast<float>(static_cast<uint32_t>(half) << 16);
    }
  } else if (code == ValueCode::kInt2) {
    for (size_t at = 0; at < values.size(); at += kTableRun) {
      DecodeTableRun(wire, values.subspan(at, std::min(kTableRun, values.size() - at)));
      wire += TableRunBytes(kTableRun);
    }
  } else {
    const IntegerCode integer = IntegerCodeOf(code);
    for (size_t at = 0; at < values.size(); at += integer.run) {
      DecodeRun(integer, wire, values.subspan(at, std::min(integer.run, values.size() - at)));
      wire += integer.RunBytes(integer.run);
    }
  }
  return true;
}

}  // namespace ringwood
