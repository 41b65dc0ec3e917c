#include "sparse/bits/sum_code.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "sparse/bits/stream.h"

namespace ringwood {
namespace {

constexpr uint32_t kSignBit = 0x80000000u;
constexpr uint32_t kInfinity = 0x7f800000u;  // of a magnitude; NaNs are above
constexpr uint64_t kSumRun = 64;
constexpr uint64_t kSumHead = 2;  // width and exponent
constexpr int kSumBias = 149;     // 2^-149 divides all floats
constexpr int kMostSumBits = 23;  // of q, which a float holds exactly
constexpr int kWholeFloats = 32;  // the width of a run that stays as it is

// |value| = mantissa · 2^exponent
struct FloatParts {
  uint32_t mantissa;
  int exponent;
};

FloatParts FloatPartsOf(uint32_t magnitude) {
  const uint32_t exponent = magnitude >> 23;
  if (exponent == 0) return {magnitude, -kSumBias};
  return {(magnitude & 0x7fffffu) | 0x800000u, static_cast<int>(exponent) - kSumBias - 1};
}

struct SumForm {
  int width = 1;
  int exponent = -kSumBias;
};

SumForm SumFormOf(std::span<const float> values) {
  int low = 255 - kSumBias, high = std::numeric_limits<int>::min();
  for (const float value : values) {
    const uint32_t magnitude = std::bit_cast<uint32_t>(value) & ~kSignBit;
    if (magnitude >= kInfinity) return {kWholeFloats, -kSumBias};
    if (magnitude == 0) continue;
    const FloatParts parts = FloatPartsOf(magnitude);
    low = std::min(low, parts.exponent + std::countr_zero(parts.mantissa));
    high = std::max(high, parts.exponent + static_cast<int>(std::bit_width(parts.mantissa)));
  }
  if (high < low) return {};  // zeros
  if (high - low > kMostSumBits) return {kWholeFloats, -kSumBias};
  return {1 + high - low, low};
}

uint64_t SumRunBytes(uint64_t count, int width) {
  return (count * static_cast<uint64_t>(width) + 7) / 8;
}

uint32_t SumCodeOf(float value, const SumForm& form) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (form.width == kWholeFloats) return bits;
  const FloatParts parts = FloatPartsOf(bits & ~kSignBit);
  const int shift = parts.exponent - form.exponent;
  const uint32_t q = parts.mantissa == 0 ? 0
                     : shift >= 0        ? parts.mantissa << shift
                                         : parts.mantissa >> -shift;  // its low bits are zeros
  return q | (bits & kSignBit) >> (kWholeFloats - form.width);
}

void DecodeSumRun(std::span<const std::byte> wire, int width, int exponent,
                  std::span<float> values) {
  BitReader reader(wire);
  const uint32_t sign = 1u << (width - 1);
  const double scale = PowerOfTwo(exponent);
  for (float& value : values) {
    const uint32_t code = static_cast<uint32_t>(reader.Peek()) & (sign | (sign - 1));
    reader.Skip(width);
    if (width == kWholeFloats) {
      value = std::bit_cast<float>(code);
    } else {
      const auto magnitude = static_cast<float>((code & (sign - 1)) * scale);
      value = (code & sign) != 0 ? -magnitude : magnitude;
    }
  }
}

}  // namespace

uint64_t MaxSumBytes(uint64_t count) {
  return sizeof(float) * count + (count + kSumRun - 1) / kSumRun * kSumHead;
}

std::byte* EncodeSums(std::span<const float> values, std::byte* to) {
  for (size_t at = 0; at < values.size(); at += kSumRun) {
    const auto run = values.subspan(at, std::min(kSumRun, values.size() - at));
    const SumForm form = SumFormOf(run);
    *to++ = static_cast<std::byte>(form.width);
    *to++ = static_cast<std::byte>(form.exponent + kSumBias);
    BitWriter writer(to);
    for (const float value : run) writer.Put(SumCodeOf(value, form), form.width);
    to = writer.Finish();
  }
  return to;
}

std::optional<uint64_t> DecodeSums(std::span<const std::byte> wire, std::span<float> values) {
  uint64_t used = 0;
  for (size_t at = 0; at < values.size(); at += kSumRun) {
    const auto run = values.subspan(at, std::min(kSumRun, values.size() - at));
    if (wire.size() - used < kSumHead) return std::nullopt;
    const int width = static_cast<int>(wire[used]);
    const int exponent = static_cast<int>(wire[used + 1]) - kSumBias;
    if (width < 1 || (width > kMostSumBits + 1 && width != kWholeFloats)) return std::nullopt;
    used += kSumHead;
    const uint64_t bytes = SumRunBytes(run.size(), width);
    if (wire.size() - used < bytes) return std::nullopt;
    DecodeSumRun(wire.subspan(used, bytes), width, exponent, run);
    used += bytes;
  }
  return used;
}

}  // namespace ringwood
