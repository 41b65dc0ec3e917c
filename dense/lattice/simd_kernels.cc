#include <cstddef>

#include "dense/lattice/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "dense/lattice/simd_kernels.cc"
#include <hwy/foreach_target.h>  // compiles this file once for each instruction set
#include <hwy/highway.h>

#include "dense/arithmetic/streaming_inl.h"
#include "dense/lattice/codes.h"

HWY_BEFORE_NAMESPACE();
namespace ringwood::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, kRow>;

template <bool kPast>
PackLargest QuantiseWith(const float* x, float weight, const float* error, const PackScales& scales,
                         uint16_t* codes, float* next_error) {
  const Floats df;
  const auto factor = hn::Set(df, weight);
  const hn::RebindToUnsigned<decltype(df)> d32;
  const hn::RebindToSigned<decltype(df)> di;
  const hn::Rebind<uint16_t, decltype(df)> d16;
  const auto levels = hn::Set(df, static_cast<float>(scales.levels));
  const auto offset = hn::Set(di, scales.levels);
  PackLargest largest;
  for (size_t block = 0; block < kPackBlocks; ++block) {
    const auto step = hn::Set(df, scales.scale[block]);
    const auto inverse = hn::Set(df, scales.inverse[block]);
    const auto limit = hn::Set(df, scales.limit[block]);
    auto most = hn::Zero(d32);
    const size_t begin = block * kLatticeBlock;
    for (size_t i = begin; i < begin + kLatticeBlock; i += hn::Lanes(df)) {
      AskAhead(x + i);
      AskAhead(error + i);
      const auto value = hn::Add(hn::Mul(factor, hn::LoadU(df, x + i)), hn::LoadU(df, error + i));
      const auto magnitude = hn::Abs(value);
      most = hn::Max(most, hn::BitCast(d32, magnitude));
      const auto fits = hn::Lt(magnitude, limit);  // false for a NaN
      const auto quotient = hn::IfThenElseZero(fits, hn::Mul(value, inverse));
      const auto code = hn::NearestInt(hn::Min(hn::Max(quotient, hn::Neg(levels)), levels));
      hn::StoreU(hn::DemoteTo(d16, hn::Add(code, offset)), d16, codes + i);
      StorePast<kPast>(hn::Sub(value, hn::Mul(hn::ConvertTo(df, code), step)), df, next_error + i);
    }
    largest[block] = hn::GetLane(hn::MaxOfLanes(d32, most));
  }
  return largest;
}

PackLargest Quantise(const float* x, float weight, const float* error, const PackScales& scales,
                     uint16_t* codes, float* next_error) {
  const bool aligned = BeforeAligned(Floats(), next_error) == 0;
  const auto pass = aligned ? QuantiseWith<true> : QuantiseWith<false>;
  return pass(x, weight, error, scales, codes, next_error);
}

using Words = hn::CappedTag<uint16_t, kRow>;

void Pack(const uint16_t* codes, int width, std::byte* packed) {
  const Words d;
  auto* const words = reinterpret_cast<uint16_t*>(packed);
  for (size_t column = 0; column < kRow; column += hn::Lanes(d)) {
    auto word = hn::Zero(d);
    uint16_t* to = words + column;
    int bit = 0;
    for (size_t row = 0; row < kRow; ++row) {
      const auto code = hn::LoadU(d, codes + row * kRow + column);
      word = hn::Or(word, hn::ShiftLeftSame(code, bit));
      bit += width;
      if (bit < 16) continue;
      hn::StoreU(word, d, to);
      to += kRow;
      bit -= 16;
      word = bit == 0 ? hn::Zero(d) : hn::ShiftRightSame(code, width - bit);
    }
  }
}

template <bool kAdd>
void UnpackWith(const std::byte* packed, int width, uint16_t* codes) {
  const Words d;
  const auto* const words = reinterpret_cast<const uint16_t*>(packed);
  const auto mask = hn::Set(d, static_cast<uint16_t>((1u << width) - 1));
  for (size_t column = 0; column < kRow; column += hn::Lanes(d)) {
    const uint16_t* from = words + column;
    auto word = hn::LoadU(d, from);
    int bit = 0;
    for (size_t row = 0; row < kRow; ++row) {
      auto code = hn::ShiftRightSame(word, bit);
      bit += width;
      if (bit >= 16 && row + 1 < kRow) {
        from += kRow;
        word = hn::LoadU(d, from);
        bit -= 16;
        if (bit != 0) code = hn::Or(code, hn::ShiftLeftSame(word, width - bit));
      }
      uint16_t* const at = codes + row * kRow + column;
      code = hn::And(code, mask);
      if constexpr (kAdd) code = hn::Add(hn::LoadU(d, at), code);
      hn::StoreU(code, d, at);
    }
  }
}

void Unpack(const std::byte* packed, int width, uint16_t* codes) {
  UnpackWith<false>(packed, width, codes);
}

void AddUnpacked(const std::byte* packed, int width, uint16_t* codes) {
  UnpackWith<true>(packed, width, codes);
}

template <bool kPast>
void DequantiseWith(const uint16_t* codes, int offset, const PackScales& scales, float divisor,
                    float* out) {
  const Floats df;
  const hn::RebindToSigned<decltype(df)> di;
  const hn::Rebind<uint16_t, decltype(df)> d16;
  const auto zero = hn::Set(di, offset);
  const auto parts = hn::Set(df, divisor);
  for (size_t block = 0; block < kPackBlocks; ++block) {
    const auto step = hn::Set(df, scales.scale[block]);
    const size_t begin = block * kLatticeBlock;
    for (size_t i = begin; i < begin + kLatticeBlock; i += hn::Lanes(df)) {
      const auto sum = hn::Sub(hn::PromoteTo(di, hn::LoadU(d16, codes + i)), zero);
      const auto value = hn::Mul(hn::ConvertTo(df, sum), step);
      StorePast<kPast>(hn::Div(value, parts), df, out + i);
    }
  }
}

void Dequantise(const uint16_t* codes, int offset, const PackScales& scales, float divisor,
                float* out) {
  const bool aligned = BeforeAligned(Floats(), out) == 0;
  const auto pass = aligned ? DequantiseWith<true> : DequantiseWith<false>;
  pass(codes, offset, scales, divisor, out);
}

}  // namespace ringwood::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE  // Highway's way to write what exists once and not once for each instruction set
namespace ringwood {

HWY_EXPORT(Quantise);
HWY_EXPORT(Pack);
HWY_EXPORT(Unpack);
HWY_EXPORT(AddUnpacked);
HWY_EXPORT(Dequantise);

PackLargest SimdQuantise(const float* x, float weight, const float* error, const PackScales& scales,
                         uint16_t* codes, float* next_error) {
  return HWY_DYNAMIC_DISPATCH(Quantise)(x, weight, error, scales, codes, next_error);
}

void SimdPack(const uint16_t* codes, int width, std::byte* packed) {
  HWY_DYNAMIC_DISPATCH(Pack)(codes, width, packed);
}

void SimdUnpack(const std::byte* packed, int width, uint16_t* codes) {
  HWY_DYNAMIC_DISPATCH(Unpack)(packed, width, codes);
}

void SimdAddUnpacked(const std::byte* packed, int width, uint16_t* codes) {
  HWY_DYNAMIC_DISPATCH(AddUnpacked)(packed, width, codes);
}

void SimdDequantise(const uint16_t* codes, int offset, const PackScales& scales, float divisor,
                    float* out) {
  HWY_DYNAMIC_DISPATCH(Dequantise)(codes, offset, scales, divisor, out);
}

}  // namespace ringwood
#endif
