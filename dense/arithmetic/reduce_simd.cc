#include "dense/arithmetic/reduce_simd.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "dense/arithmetic/reduce_simd.cc"
#include <hwy/foreach_target.h>  // compiles this file once for each instruction set
#include <hwy/highway.h>

#include "dense/arithmetic/half.h"
#include "dense/arithmetic/reduce.h"
#include "dense/arithmetic/rounding.h"
#include "dense/arithmetic/streaming_inl.h"

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
  ReferenceReduce(DataType::kFloat32, ReduceOp::kSum, a + i, b + i, out + i, count - i);
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

// A vector of bf16, widened.
template <class DF>
HWY_INLINE hn::Vec<DF> LoadBFloat16(DF df, const uint16_t* from) {
  const hn::RebindToUnsigned<DF> d32;
  const hn::Rebind<uint16_t, DF> d16;
  return hn::BitCast(df, hn::ShiftLeft<16>(hn::PromoteTo(d32, hn::LoadU(d16, from))));
}

// Rounds `value`, stores it and returns what was stored, widened.
template <class DF, class V>
HWY_INLINE V StoreBFloat16(DF df, V value, uint16_t* to) {
  const hn::RebindToUnsigned<DF> d32;
  const hn::RebindToSigned<DF> di;
  const hn::Rebind<uint16_t, DF> d16;
  const auto rounded = RoundToBFloat16(d32, hn::BitCast(d32, value));
  hn::StoreU(hn::DemoteTo(d16, hn::BitCast(di, rounded)), d16, to);
  return hn::BitCast(df, hn::ShiftLeft<16>(rounded));
}

void AddBFloat16(const uint16_t* a, const uint16_t* b, uint16_t* out, size_t count) {
  const hn::ScalableTag<float> df;
  const size_t lanes = hn::Lanes(df);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    StoreBFloat16(df, hn::Add(LoadBFloat16(df, a + i), LoadBFloat16(df, b + i)), out + i);
  }
  ReferenceReduce(DataType::kBFloat16, ReduceOp::kSum, a + i, b + i, out + i, count - i);
}

// The next error is read in the next round: it goes past the cache.
void RoundSum(const float* x, const float* error, uint16_t* wire, float* next_error, size_t count) {
  const hn::ScalableTag<float> df;
  const size_t lanes = hn::Lanes(df);
  size_t i = std::min(BeforeAligned(df, next_error), count);
  ReferenceRoundSum(x, error, wire, next_error, i);
  for (; i + lanes <= count; i += lanes) {
    AskAhead(x + i);
    AskAhead(error + i);
    const auto value = hn::Add(hn::LoadU(df, x + i), hn::LoadU(df, error + i));
    const auto sent = StoreBFloat16(df, value, wire + i);
    hn::Stream(hn::Sub(value, sent), df, next_error + i);
  }
  hwy::FlushStream();
  ReferenceRoundSum(x + i, error + i, wire + i, next_error + i, count - i);
}

void RoundPartialSum(const uint16_t* partial, const float* x, const float* error, uint16_t* wire,
                     float* next_error, size_t count) {
  const hn::ScalableTag<float> df;
  const size_t lanes = hn::Lanes(df);
  size_t i = std::min(BeforeAligned(df, next_error), count);
  ReferenceRoundPartialSum(partial, x, error, wire, next_error, i);
  for (; i + lanes <= count; i += lanes) {
    AskAhead(x + i);
    AskAhead(error + i);
    const auto mine = hn::Add(hn::LoadU(df, x + i), hn::LoadU(df, error + i));
    const auto value = hn::Add(LoadBFloat16(df, partial + i), mine);
    const auto sent = StoreBFloat16(df, value, wire + i);
    hn::Stream(hn::Sub(value, sent), df, next_error + i);
  }
  hwy::FlushStream();
  ReferenceRoundPartialSum(partial + i, x + i, error + i, wire + i, next_error + i, count - i);
}

// Forwards: the floats that are written never reach a wire value that is still to be read.
void WidenBehind(float* values, size_t count) {
  const hn::ScalableTag<float> df;
  const size_t lanes = hn::Lanes(df);
  const uint16_t* const wire = HalfBehind(values, count);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(LoadBFloat16(df, wire + i), df, values + i);
  for (; i < count; ++i) {
    uint16_t rest;
    std::memcpy(&rest, reinterpret_cast<const std::byte*>(values) + 2 * (count + i), sizeof rest);
    const float value = FromBFloat16(rest);
    std::memcpy(reinterpret_cast<std::byte*>(values + i), &value, sizeof value);
  }
}

}  // namespace ringwood::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE  // Highway's way to write what exists once and not once for each instruction set
namespace ringwood {

HWY_EXPORT(AddFloat32);
HWY_EXPORT(AddBFloat16);
HWY_EXPORT(RoundSum);
HWY_EXPORT(RoundPartialSum);
HWY_EXPORT(WidenBehind);

void SimdAddFloat32(const float* a, const float* b, float* out, size_t count) {
  HWY_DYNAMIC_DISPATCH(AddFloat32)(a, b, out, count);
}

void SimdAddBFloat16(const uint16_t* a, const uint16_t* b, uint16_t* out, size_t count) {
  HWY_DYNAMIC_DISPATCH(AddBFloat16)(a, b, out, count);
}

void SimdRoundSum(const float* x, const float* error, uint16_t* wire, float* next_error,
                  size_t count) {
  HWY_DYNAMIC_DISPATCH(RoundSum)(x, error, wire, next_error, count);
}

void SimdRoundPartialSum(const uint16_t* partial, const float* x, const float* error,
                         uint16_t* wire, float* next_error, size_t count) {
  HWY_DYNAMIC_DISPATCH(RoundPartialSum)(partial, x, error, wire, next_error, count);
}

void SimdWidenBehind(float* values, size_t count) {
  HWY_DYNAMIC_DISPATCH(WidenBehind)(values, count);
}

}  // namespace ringwood
#endif
