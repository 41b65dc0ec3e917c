#include "sparse/value_code.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

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

uint16_t ToBFloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if (!IsFinite(value))
    return static_cast<uint16_t>(bits >> 16 | ((bits & 0xffff) != 0 ? 0x40 : 0));
  const uint32_t rounded = bits + 0x7fff + (bits >> 16 & 1);
  // Rounding up to infinity would send what cannot be taken back: the largest finite value instead.
  const bool overflow = (rounded & ~kSignBit) >= kFirstNonFiniteKey;
  return static_cast<uint16_t>((overflow ? bits : rounded) >> 16);
}

double PowerOfTwo(int exponent) {
  return std::bit_cast<double>(static_cast<uint64_t>(exponent + 1023) << 52);
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

}  // namespace

uint64_t ValueBytes(ValueCode code, uint64_t count) {
  if (code == ValueCode::kFloat32) return 4 * count;
  if (code == ValueCode::kBFloat16) return 2 * count;
  const IntegerCode integer = IntegerCodeOf(code);
  const uint64_t rest = count % integer.run;
  return count / integer.run * integer.RunBytes(integer.run) +
         (rest > 0 ? integer.RunBytes(rest) : 0);
}

void EncodeValues(ValueCode code, std::span<const float> values, std::byte* wire) {
  if (values.empty()) return;
  if (code == ValueCode::kFloat32) {
    std::memcpy(wire, values.data(), values.size_bytes());
  } else if (code == ValueCode::kBFloat16) {
    for (size_t i = 0; i < values.size(); ++i) {
      const uint16_t half = ToBFloat16(values[i]);
      std::memcpy(wire + 2 * i, &half, 2);
    }
  } else {
    const IntegerCode integer = IntegerCodeOf(code);
    for (size_t at = 0; at < values.size(); at += integer.run) {
      EncodeRun(integer, values.subspan(at, std::min(integer.run, values.size() - at)), wire);
      wire += integer.RunBytes(integer.run);
    }
  }
}

void DecodeValues(ValueCode code, const std::byte* wire, std::span<float> values) {
  if (values.empty()) return;
  if (code == ValueCode::kFloat32) {
    std::memcpy(values.data(), wire, values.size_bytes());
  } else if (code == ValueCode::kBFloat16) {
    for (size_t i = 0; i < values.size(); ++i) {
      uint16_t half;
      std::memcpy(&half, wire + 2 * i, 2);
      values[i] = std::bit_cast<float>(static_cast<uint32_t>(half) << 16);
    }
  } else {
    const IntegerCode integer = IntegerCodeOf(code);
    for (size_t at = 0; at < values.size(); at += integer.run) {
      DecodeRun(integer, wire, values.subspan(at, std::min(integer.run, values.size() - at)));
      wire += integer.RunBytes(integer.run);
    }
  }
}

}  // namespace ringwood
