// For passes over arrays that are longer than a cache, which memory bounds. Stores past the cache,
// for what is written as a whole and not read again soon: an ordinary store reads its line from
// memory first, a third of what a pass waits for. And what is read, asked for a page ahead: the
// processor asks by itself within a page only, and for less. Included by files that Highway
// compiles for several instruction sets. Other threads see such stores after hwy::FlushStream.
#if defined(RINGWOOD_DENSE_ARITHMETIC_STREAMING_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef RINGWOOD_DENSE_ARITHMETIC_STREAMING_INL_H
#undef RINGWOOD_DENSE_ARITHMETIC_STREAMING_INL_H
#else
#define RINGWOOD_DENSE_ARITHMETIC_STREAMING_INL_H
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace ringwood::HWY_NAMESPACE {

// Asks for what is a page behind `at`, which may be beyond the array's end.
template <class T>
HWY_INLINE void AskAhead(const T* at) {
  hwy::Prefetch(reinterpret_cast<const T*>(reinterpret_cast<uintptr_t>(at) + 4096));
}

// Elements from `to` on before the first place of a whole vector.
template <class D>
size_t BeforeAligned(D d, const hwy::HWY_NAMESPACE::TFromD<D>* to) {
  const size_t lanes = hwy::HWY_NAMESPACE::Lanes(d);
  return (lanes - reinterpret_cast<uintptr_t>(to) / sizeof(*to) % lanes) % lanes;
}

// With kPast `to` is aligned: BeforeAligned is 0.
template <bool kPast, class V, class D>
HWY_INLINE void StorePast(V values, D d, hwy::HWY_NAMESPACE::TFromD<D>* to) {
  if constexpr (kPast) {
    hwy::HWY_NAMESPACE::Stream(values, d, to);
  } else {
    hwy::HWY_NAMESPACE::StoreU(values, d, to);
  }
}

}  // namespace ringwood::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
