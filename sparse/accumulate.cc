#include "sparse/accumulate.h"

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

// Bit j of the answer: lane j of the comparison is true.
template <class D, class M>
uint64_t Bits(D d, M mask) {
  uint8_t bytes[8] = {0};
  hn::StoreMaskBits(d, mask, bytes);
  uint64_t bits = 0;
  std::memcpy(&bits, bytes, sizeof(bits));
  return bits;
}

// Reads from `begin` until the list is nearly full or fewer than kStride elements are left; returns
// where it stopped. kUpdate: off for Scan, which reads pass.residual, on otherwise.
template <bool kUpdate, bool kMomentum>
uint64_t Segment(const AccumulatePass& pass, uint64_t begin, TopK* topk) {
  const hn::CappedTag<float, 16> d;  // 4, 8 or 16 lanes: whole words of 64 results
  const hn::RebindToSigned<decltype(d)> di;
  const size_t lanes = hn::Lanes(d);
  const auto below = hn::Set(di, static_cast<int32_t>(topk->floor() - 1));
  const auto weight = hn::Set(d, pass.weight), decay = hn::Set(d, pass.decay),
             factor = hn::Set(d, pass.factor);
  // A copy in the cache: reading a streamed line back would stall. One more element for OfferWord.
  HWY_ALIGN float fresh[2 * kStride] = {};
  uint64_t i = begin;
  for (; i + kStride <= pass.elements && topk->room() >= kStride; i += kStride) {
    uint64_t bits = 0;
    for (size_t j = 0; j < kStride; j += lanes) {
      auto value = hn::Zero(d);
      if (kUpdate) {
        auto x = hn::Mul(weight, hn::LoadU(d, pass.gradient + i + j));
        if (kMomentum) {
          x = hn::Add(hn::Mul(factor, hn::LoadU(d, pass.momentum + i + j)), x);
          hn::Stream(x, d, pass.momentum_shadow + i + j);
        }
        value = hn::Add(hn::Mul(decay, hn::LoadU(d, pass.residual + i + j)), x);
        hn::Stream(value, d, pass.shadow + i + j);
      } else {
        value = hn::LoadU(d, pass.residual + i + j);
      }
      hn::Store(value, d, fresh + j);
      // Keys are below 2^31, so the signed comparison orders them.
      const auto large = hn::Gt(hn::BitCast(di, hn::Abs(value)), below);
      bits |= Bits(di, large) << j;
    }
    topk->OfferWord(static_cast<uint32_t>(i), bits, fresh);
  }
  return i;
}

uint64_t SegmentResidual(const AccumulatePass& pass, uint64_t begin, TopK* topk) {
  return Segment<true, false>(pass, begin, topk);
}
uint64_t SegmentMomentum(const AccumulatePass& pass, uint64_t begin, TopK* topk) {
  return Segment<true, true>(pass, begin, topk);
}
uint64_t SegmentScan(const AccumulatePass& pass, uint64_t begin, TopK* topk) {
  return Segment<false, false>(pass, begin, topk);
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

constexpr uint64_t kStride = 64;

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
    if (topk->room() < kStride) topk->Cut();
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
