// bf16 in vectors of fp32. Included by files that Highway compiles for several instruction sets.
#if defined(RINGWOOD_DENSE_ARITHMETIC_BFLOAT16_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef RINGWOOD_DENSE_ARITHMETIC_BFLOAT16_INL_H
#undef RINGWOOD_DENSE_ARITHMETIC_BFLOAT16_INL_H
#else
#define RINGWOOD_DENSE_ARITHMETIC_BFLOAT16_INL_H
#endif

#include <hwy/highway.h>

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace ringwood::HWY_NAMESPACE {

// Round to nearest even in integers: Highway 1.0's own demotion to bf16 truncates.
template <class D, class V>
HWY_INLINE V RoundToBFloat16(D d32, V bits) {
  namespace hn = hwy::HWY_NAMESPACE;
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
HWY_INLINE hwy::HWY_NAMESPACE::Vec<DF> LoadBFloat16(DF df, const uint16_t* from) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::RebindToUnsigned<DF> d32;
  const hn::Rebind<uint16_t, DF> d16;
  return hn::BitCast(df, hn::ShiftLeft<16>(hn::PromoteTo(d32, hn::LoadU(d16, from))));
}

// Rounds `value`, stores it and returns what was stored, widened.
template <class DF, class V>
HWY_INLINE V StoreBFloat16(DF df, V value, uint16_t* to) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::RebindToUnsigned<DF> d32;
  const hn::RebindToSigned<DF> di;
  const hn::Rebind<uint16_t, DF> d16;
  const auto rounded = RoundToBFloat16(d32, hn::BitCast(d32, value));
  hn::StoreU(hn::DemoteTo(d16, hn::BitCast(di, rounded)), d16, to);
  return hn::BitCast(df, hn::ShiftLeft<16>(rounded));
}

}  // namespace ringwood::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
