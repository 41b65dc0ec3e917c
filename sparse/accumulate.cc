#include "sparse/accumulate.h"

#include <bit>
#include <cstring>

#include "hwy/cache_control.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sparse/accumulate.cc"
#include "hwy/foreach_target.h"
// After foreach_target, which includes this file once for every instruction set.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ringwood {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr size_t kStride = 64;  // elements whose comparison results fill one machine word
constexpr size_t kPage = 1024;  // elements of a page of memory

// Bit j of the answer: lane j of the comparison is true.
template <class D, class M>
uint64_t Bits(D d, M mask) {
  uint16_t bits = 0;
  uint8_t bytes[8] = {0};
  hn::StoreMaskBits(d, mask, bytes);
  std::memcpy(&bits, bytes, sizeof(bits));
  return bits;
}

template <bool kUpdate, bool kMomentum>
class Segment {
 public:
  explicit Segment(const AccumulatePass& pass) : pass_(pass) {}

  // Reads from `begin` until the list is nearly full or less than a stride is left; returns where
  // it stopped.
  uint64_t Run(uint64_t begin, TopK* topk) const {
    uint32_t* const first = topk->end_index();
    const uint32_t* const full = first + (topk->room() - kStride - TopK::kOverhang);
    const uint32_t floor = topk->floor();
    Writer to{first, topk->end_value()};
    uint64_t i = begin;
    for (; pass_.elements - i >= kStride && to.index <= full; i += kStride) {
      to = Write(i, Update(i, floor), to);
    }
    topk->Add(static_cast<uint64_t>(to.index - first));
    return i;
  }

 private:
  // Where entries are written.
  struct Writer {
    uint32_t* index;
    float* value;
  };

  // Bit j of the answer: element begin + j reaches the floor.
  HWY_INLINE uint64_t Update(uint64_t begin, uint32_t floor) const {
    const hn::CappedTag<float, 16> d;  // 4, 8 or 16 lanes: whole words of 64 results
    const hn::RebindToSigned<decltype(d)> di;
    const size_t lanes = hn::Lanes(d);
    const auto below = hn::Set(di, static_cast<int32_t>(floor - 1));
    const auto weight = hn::Set(d, pass_.weight), decay = hn::Set(d, pass_.decay),
               factor = hn::Set(d, pass_.factor);
    // A streaming store waits for the translation of its page, which nothing fetches ahead: one
    // line of the page after is.
    if (kUpdate && begin % kPage == 0) {
      hwy::Prefetch(pass_.shadow + begin + kPage);
      if (kMomentum) hwy::Prefetch(pass_.momentum_shadow + begin + kPage);
    }
    uint64_t bits = 0;
    for (size_t j = 0; j < kStride; j += lanes) {
      const uint64_t i = begin + j;
      auto value = hn::Zero(d);
      if (kUpdate) {
        auto x = hn::Mul(weight, hn::LoadU(d, pass_.gradient + i));
        if (kMomentum) {
          x = hn::Add(hn::Mul(factor, hn::LoadU(d, pass_.momentum + i)), x);
          hn::Stream(x, d, pass_.momentum_shadow + i);
        }
        value = hn::Add(hn::Mul(decay, hn::LoadU(d, pass_.residual + i)), x);
        hn::Stream(value, d, pass_.shadow + i);
      } else {
        value = hn::LoadU(d, pass_.residual + i);
      }
      // Keys are below 2^31, so the signed comparison orders them.
      bits |= Bits(di, hn::Gt(hn::BitCast(di, hn::Abs(value)), below)) << j;
    }
    return bits;
  }

  // The same value, one by one: reading a streamed line back would stall.
  HWY_INLINE float Again(uint64_t i) const {
    if (!kUpdate) return pass_.residual[i];
    float x = pass_.weight * pass_.gradient[i];
    if (kMomentum) x = pass_.factor * pass_.momentum[i] + x;
    return pass_.decay * pass_.residual[i] + x;
  }

  // Writes entry base + j for every bit j; no branch for the first ones, because whether a word
  // has any cannot be predicted.
  HWY_INLINE Writer Write(uint64_t base, uint64_t bits, Writer to) const {
    const size_t count = static_cast<size_t>(std::popcount(bits));
    for (size_t n = 0; n < TopK::kOverhang; ++n, bits &= bits - 1) {
      const uint64_t i = base + (static_cast<uint64_t>(std::countr_zero(bits)) & (kStride - 1));
      to.index[n] = static_cast<uint32_t>(i);
      to.value[n] = Again(i);
    }
    for (size_t n = TopK::kOverhang; n < count; ++n, bits &= bits - 1) {
      const uint64_t i = base + static_cast<uint64_t>(std::countr_zero(bits));
      to.index[n] = static_cast<uint32_t>(i);
      to.value[n] = Again(i);
    }
    return {to.index + count, to.value + count};
  }

  const AccumulatePass pass_;  // a copy: what is written cannot change it
};

uint64_t SegmentResidual(const AccumulatePass& pass, uint64_t begin, TopK* topk) {
  return Segment<true, false>(pass).Run(begin, topk);
}
uint64_t SegmentMomentum(const AccumulatePass& pass, uint64_t begin, TopK* topk) {
  return Segment<true, true>(pass).Run(begin, topk);
}
uint64_t SegmentScan(const AccumulatePass& pass, uint64_t begin, TopK* topk) {
  return Segment<false, false>(pass).Run(begin, topk);
}

}  // namespace HWY_NAMESPACE
}  // namespace ringwood
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ringwood {

HWY_EXPORT(SegmentResidual);
HWY_EXPORT(SegmentMomentum);
HWY_EXPORT(SegmentScan);

namespace {

constexpr uint64_t kStride = 64;  // as above

void PlainFrom(uint64_t begin, const AccumulatePass& pass, TopK* topk) {
  for (uint64_t i = begin; i < pass.elements; ++i) {
    float x = pass.weight * pass.gradient[i];
    if (pass.momentum != nullptr) {
      x = pass.factor * pass.momentum[i] + x;
      pass.momentum_shadow[i] = x;
    }
    pass.shadow[i] = pass.decay * pass.residual[i] + x;
    if (topk->room() == 0) topk->Cut();
    topk->Offer(static_cast<uint32_t>(i), pass.shadow[i]);
  }
}

// Runs segments and makes room between them. Returns where the rest (less than a stride) begins.
template <class SegmentFunction>
uint64_t Segments(SegmentFunction segment, const AccumulatePass& pass, TopK* topk) {
  uint64_t at = 0;
  while (pass.elements - at >= kStride) {
    if (topk->room() < kStride + TopK::kOverhang) topk->Cut();
    at = segment(pass, at, topk);
  }
  return at;
}

}  // namespace

void AccumulatePlain(const AccumulatePass& pass, TopK* topk) { PlainFrom(0, pass, topk); }

void Accumulate(const AccumulatePass& pass, TopK* topk) {
  const uint64_t rest = pass.momentum != nullptr
                            ? Segments(HWY_DYNAMIC_DISPATCH(SegmentMomentum), pass, topk)
                            : Segments(HWY_DYNAMIC_DISPATCH(SegmentResidual), pass, topk);
  hwy::FlushStream();
  PlainFrom(rest, pass, topk);
  topk->Settle();
}

void Scan(std::span<const float> values, TopK* topk) {
  AccumulatePass pass;
  pass.elements = values.size();
  pass.residual = values.data();
  const uint64_t rest = Segments(HWY_DYNAMIC_DISPATCH(SegmentScan), pass, topk);
  for (uint64_t i = rest; i < values.size(); ++i) {
    if (topk->room() == 0) topk->Cut();
    topk->Offer(static_cast<uint32_t>(i), values[i]);
  }
  topk->Settle();
}

}  // namespace ringwood
#endif
