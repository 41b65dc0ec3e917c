#include "client/exchange/scale.h"

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <cstddef>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "client/exchange/scale.cc"
#include <hwy/foreach_target.h>  // compiles this file once for each instruction set
#include <hwy/highway.h>

#include "dense/arithmetic/bfloat16_inl.h"
#include "dense/arithmetic/half.h"
#include "dense/arithmetic/streaming_inl.h"

HWY_BEFORE_NAMESPACE();
namespace ringwood::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;

// So much does not stay in a core's cache until it is read.
constexpr size_t kPastCache = 1 << 20;

// to[i] = vector_of(i) in whole vectors, to[i] = scalar_of(i) before and behind them.
template <class Vectors, class Scalars>
void Fill(std::span<float> to, const Vectors& vector_of, const Scalars& scalar_of) {
  const Floats d;
  const size_t lanes = hn::Lanes(d);
  const size_t begin = std::min(BeforeAligned(d, to.data()), to.size());
  const size_t end = begin + (to.size() - begin) / lanes * lanes;
  for (size_t i = 0; i < begin; ++i) to[i] = scalar_of(i);
  if (to.size_bytes() >= kPastCache) {
    for (size_t i = begin; i < end; i += lanes) StorePast<true>(vector_of(i), d, &to[i]);
    hwy::FlushStream();
  } else {
    for (size_t i = begin; i < end; i += lanes) StorePast<false>(vector_of(i), d, &to[i]);
  }
  for (size_t i = end; i < to.size(); ++i) to[i] = scalar_of(i);
}

uint32_t Magnitude(float value) { return std::bit_cast<uint32_t>(value) & 0x7fffffffu; }

// Returns the largest magnitude's bits.
uint32_t Scale(std::span<const float> in, float weight, std::span<float> out) {
  const Floats d;
  const hn::RebindToUnsigned<Floats> d32;
  const auto factor = hn::Set(d, weight);
  auto most = hn::Zero(d32);
  uint32_t largest = 0;
  Fill(
      out,
      [&](size_t i) HWY_ATTR {
        const auto value = hn::Mul(factor, hn::LoadU(d, &in[i]));
        most = hn::Max(most, hn::BitCast(d32, hn::Abs(value)));
        return value;
      },
      [&](size_t i) {
        const float value = weight * in[i];
        largest = std::max(largest, Magnitude(value));
        return value;
      });
  return std::max(largest, hn::GetLane(hn::MaxOfLanes(d32, most)));
}

void Divide(std::span<const float> sum, float total, std::span<float> out) {
  const Floats d;
  const auto divisor = hn::Set(d, total);
  Fill(
      out, [&](size_t i) HWY_ATTR { return hn::Div(hn::LoadU(d, &sum[i]), divisor); },
      [&](size_t i) { return sum[i] / total; });
}

uint32_t ScaleBFloat16(std::span<const uint16_t> in, float weight, std::span<uint16_t> out) {
  const Floats d;
  const hn::RebindToUnsigned<Floats> d32;
  const auto factor = hn::Set(d, weight);
  auto most = hn::Zero(d32);
  uint32_t largest = 0;
  size_t i = 0;
  for (; i + hn::Lanes(d) <= in.size(); i += hn::Lanes(d)) {
    const auto value = hn::Mul(factor, LoadBFloat16(d, &in[i]));
    most = hn::Max(most, hn::BitCast(d32, hn::Abs(value)));
    StoreBFloat16(d, value, &out[i]);
  }
  for (; i < in.size(); ++i) {
    const float value = weight * FromBFloat16(in[i]);
    largest = std::max(largest, Magnitude(value));
    out[i] = ToBFloat16(value);
  }
  return std::max(largest, hn::GetLane(hn::MaxOfLanes(d32, most)));
}

void DivideBFloat16(std::span<const uint16_t> sum, float total, std::span<uint16_t> out) {
  const Floats d;
  const auto divisor = hn::Set(d, total);
  size_t i = 0;
  for (; i + hn::Lanes(d) <= sum.size(); i += hn::Lanes(d)) {
    StoreBFloat16(d, hn::Div(LoadBFloat16(d, &sum[i]), divisor), &out[i]);
  }
  for (; i < sum.size(); ++i) out[i] = ToBFloat16(FromBFloat16(sum[i]) / total);
}

}  // namespace ringwood::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE  // Highway's way to write what exists once and not once for each instruction set
namespace ringwood {

HWY_EXPORT(Scale);
HWY_EXPORT(Divide);
HWY_EXPORT(ScaleBFloat16);
HWY_EXPORT(DivideBFloat16);

float LargestSummand(int terms) { return FLT_MAX / 2 / static_cast<float>(terms); }

// |x| as an unsigned integer orders like |x|, with Inf and NaN above every number: one integer
// maximum answers all three questions.
bool ScaleInto(std::span<const float> in, float weight, int world, std::span<float> out) {
  if (weight == 0) {
    std::fill(out.begin(), out.end(), 0.0f);
    return false;
  }
  const uint32_t largest = HWY_DYNAMIC_DISPATCH(Scale)(in, weight, out);
  return largest > std::bit_cast<uint32_t>(LargestSummand(world));
}

bool ScaleInto(std::span<const uint16_t> in, float weight, int world, std::span<uint16_t> out) {
  if (weight == 0) {
    std::fill(out.begin(), out.end(), uint16_t{0});
    return false;
  }
  const uint32_t largest = HWY_DYNAMIC_DISPATCH(ScaleBFloat16)(in, weight, out);
  return largest > std::bit_cast<uint32_t>(LargestSummand(world));
}

bool ScaleInto(std::span<const float> in, float weight, int world, std::span<uint16_t> out) {
  const float limit = LargestSummand(world);
  bool beyond = false;
  for (size_t i = 0; i < in.size(); ++i) {
    const float value = weight == 0 ? 0 : weight * in[i];
    beyond |= !(std::abs(value) <= limit);
    out[i] = ToBFloat16(value);
  }
  return beyond;
}

bool Overflows(std::span<const float> in, float weight) {
  uint32_t largest = 0;
  for (const float value : in) {
    largest = std::max(largest, std::bit_cast<uint32_t>(weight * value) & 0x7fffffffu);
  }
  return largest > std::bit_cast<uint32_t>(FLT_MAX);
}

bool Overflows(std::span<const uint16_t> in, float weight) {
  uint32_t largest = 0;
  for (const uint16_t bits : in) {
    largest = std::max(largest, std::bit_cast<uint32_t>(weight * FromBFloat16(bits)) & 0x7fffffffu);
  }
  return largest > std::bit_cast<uint32_t>(FLT_MAX);
}

void DivideInto(std::span<const float> sum, double total, std::span<float> out) {
  if (total == 0) {
    std::fill(out.begin(), out.end(), 0.0f);
    return;
  }
  const float divisor = static_cast<float>(total);
  if (static_cast<double>(divisor) == total) {
    HWY_DYNAMIC_DISPATCH(Divide)(sum, divisor, out);
  } else {
    for (size_t i = 0; i < sum.size(); ++i) out[i] = static_cast<float>(sum[i] / total);
  }
}

void DivideInto(std::span<const uint16_t> sum, double total, std::span<uint16_t> out) {
  if (total == 0) {
    std::fill(out.begin(), out.end(), uint16_t{0});
    return;
  }
  const float divisor = static_cast<float>(total);
  if (static_cast<double>(divisor) == total) {
    HWY_DYNAMIC_DISPATCH(DivideBFloat16)(sum, divisor, out);
  } else {
    for (size_t i = 0; i < sum.size(); ++i) {
      out[i] = ToBFloat16(static_cast<float>(FromBFloat16(sum[i]) / total));
    }
  }
}

}  // namespace ringwood
#endif
