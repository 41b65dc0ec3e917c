#include "dense/arithmetic/reduce_simd.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "dense/arithmetic/reduce_simd.cc"
#include <hwy/foreach_target.h>  // compiles this file once for each instruction set
#include <hwy/highway.h>

#include "dense/arithmetic/bfloat16_inl.h"
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
