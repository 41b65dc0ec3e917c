#include "dense/reduce_simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "dense/reduce_simd.cc"
#include <hwy/foreach_target.h>  // compiles this file once for each instruction set
#include <hwy/highway.h>

#include "dense/half.h"

HWY_BEFORE_NAMESPACE();
namespace ringwood::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void AddFloat32(const float* a, const float* b, float* out, size_t count) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    const auto first = hn::Add(hn::LoadU(d, a + i), hn::LoadU(d, b + i));
    const auto second = hn::Add(hn::LoadU(d, a + i + lanes), hn::LoadU(d, b + i + lanes));
    hn::StoreU(first, d, out + i);
    hn::StoreU(second, d, out + i + lanes);
  }
  for (; i < count; ++i) out[i] = a[i] + b[i];
}

// Round to nearest even in integers: Highway 1.0's own demotion to bf16 truncates.
template <class D, class V>
HWY_INLINE V RoundToBFloat16(D d32, V bits) {
  const auto lsb = hn::And(hn::ShiftRight<16>(bits), hn::Set(d32, 1u));
  const auto rounded = hn::Add(bits, hn::Add(lsb, hn::Set(d32, 0x7fffu)));
  const auto magnitude = hn::And(bits, hn::Set(d32, 0x7fffffffu));
  // Compared as signed: both sides are below 2^31.
  const hn::RebindToSigned<D> di;
  const auto nan = hn::RebindMask(d32, hn::Gt(hn::BitCast(di, magnitude), hn::Set(di, 0x7f800000)));
  return hn::ShiftRight<16>(hn::IfThenElse(nan, hn::Or(bits, hn::Set(d32, 0x400000u)), rounded));
}

void AddBFloat16(const uint16_t* a, const uint16_t* b, uint16_t* out, size_t count) {
  const hn::ScalableTag<uint32_t> d32;
  const hn::Rebind<uint16_t, decltype(d32)> d16;
  const hn::Rebind<float, decltype(d32)> df;
  const size_t lanes = hn::Lanes(d32);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto left = hn::ShiftLeft<16>(hn::PromoteTo(d32, hn::LoadU(d16, a + i)));
    const auto right = hn::ShiftLeft<16>(hn::PromoteTo(d32, hn::LoadU(d16, b + i)));
    const auto sum = hn::Add(hn::BitCast(df, left), hn::BitCast(df, right));
    const auto rounded = RoundToBFloat16(d32, hn::BitCast(d32, sum));
    const hn::RebindToSigned<decltype(d32)> di;
    hn::StoreU(hn::DemoteTo(d16, hn::BitCast(di, rounded)), d16, out + i);
  }
  for (; i < count; ++i) out[i] = ToBFloat16(FromBFloat16(a[i]) + FromBFloat16(b[i]));
}

}  // namespace ringwood::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE  // Highway's way to write what exists once and not once for each instruction set
namespace ringwood {

HWY_EXPORT(AddFloat32);
HWY_EXPORT(AddBFloat16);

void SimdAddFloat32(const float* a, const float* b, float* out, size_t count) {
  HWY_DYNAMIC_DISPATCH(AddFloat32)(a, b, out, count);
}

void SimdAddBFloat16(const uint16_t* a, const uint16_t* b, uint16_t* out, size_t count) {
  HWY_DYNAMIC_DISPATCH(AddBFloat16)(a, b, out, count);
}

}  // namespace ringwood
#endif
