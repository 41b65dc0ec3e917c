#include "sparse/cut.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <functional>
#include <vector>

#include "base/check.h"
#include "sparse/key.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sparse/cut.cc"
#include "hwy/foreach_target.h"
// After foreach_target, which includes this file once for every instruction set.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ringwood {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::CappedTag<int32_t, 16>;

template <class M>
uint32_t Bits(M mask) {
  uint8_t bytes[8] = {0};
  hn::StoreMaskBits(D(), mask, bytes);
  uint32_t bits = 0;
  std::memcpy(&bits, bytes, sizeof(bits));
  return bits & ((1ull << hn::Lanes(D())) - 1);
}

// Keys are below 2^31, so signed comparisons order them.
auto Load(const float* values) {
  const hn::RebindToFloat<D> df;
  return hn::BitCast(D(), hn::Abs(hn::LoadU(df, values)));
}

// Of whole vectors.
KeyRange Range(const float* values, uint64_t vectors) {
  const D d;
  auto least = hn::Set(d, INT32_MAX), most = hn::Zero(d);
  for (uint64_t i = 0; i < vectors; ++i) {
    const auto key = Load(values + i * hn::Lanes(d));
    least = hn::Min(least, key);
    most = hn::Max(most, key);
  }
  return {static_cast<uint32_t>(hn::GetLane(hn::MinOfLanes(d, least))),
          static_cast<uint32_t>(hn::GetLane(hn::MaxOfLanes(d, most)))};
}

// The keys from range.least to range.most, of whole vectors; `keys` has room for one vector more.
uint64_t Gather(KeyRange range, const float* values, uint64_t vectors, uint32_t* keys) {
  const D d;
  const auto below = hn::Set(d, static_cast<int32_t>(range.least) - 1);
  const auto most = hn::Set(d, static_cast<int32_t>(range.most));
  uint32_t* to = keys;
  for (uint64_t i = 0; i < vectors; ++i) {
    const auto key = Load(values + i * hn::Lanes(d));
    const auto match = hn::AndNot(hn::Gt(key, most), hn::Gt(key, below));
    if (hn::AllFalse(d, match)) continue;  // few match
    hn::StoreU(hn::Compress(key, match), d, reinterpret_cast<int32_t*>(to));
    to += hn::CountTrue(d, match);
  }
  return static_cast<uint64_t>(to - keys);
}

// KeepAbove over whole vectors. In one place, what is written is never ahead of what is read.
uint64_t Keep(uint32_t key, uint64_t* ties, const uint32_t* index, const float* value,
              uint64_t vectors, EntryArrays to) {
  const D d;
  const hn::RebindToFloat<D> df;
  const size_t lanes = hn::Lanes(d);
  const auto keys = hn::Set(d, static_cast<int32_t>(key));
  const auto* const all_index = reinterpret_cast<const int32_t*>(index);
  auto* to_index = reinterpret_cast<int32_t*>(to.index);
  float* to_value = to.value;
  for (uint64_t i = 0; i < vectors * lanes; i += lanes) {
    const auto here = Load(value + i);
    auto stay = hn::Gt(here, keys);
    const auto equal = hn::Eq(here, keys);
    if (!hn::AllFalse(d, equal)) {
      uint32_t first = Bits(equal);  // as many of them as may stay
      while (static_cast<uint64_t>(std::popcount(first)) > *ties) first &= ~std::bit_floor(first);
      *ties -= static_cast<uint64_t>(std::popcount(first));
      const uint64_t bits = Bits(stay) | first;
      stay = hn::LoadMaskBits(d, reinterpret_cast<const uint8_t*>(&bits));
    }
    const auto indices = hn::LoadU(d, all_index + i);
    const auto values = hn::LoadU(df, value + i);
    hn::StoreU(hn::Compress(indices, stay), d, to_index);
    hn::StoreU(hn::Compress(values, hn::RebindMask(df, stay)), df, to_value);
    const size_t kept = hn::CountTrue(d, stay);
    to_index += kept;
    to_value += kept;
  }
  return static_cast<uint64_t>(to_value - to.value);
}

uint64_t Width() { return hn::Lanes(D()); }

}  // namespace HWY_NAMESPACE
}  // namespace ringwood
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ringwood {

HWY_EXPORT(Range);
HWY_EXPORT(Gather);
HWY_EXPORT(Keep);
HWY_EXPORT(Width);

namespace {

constexpr int kBinBits = 11;
constexpr uint64_t kFew = 64;  // keys that are sorted rather than counted
// Neighbours often fall into one bin; four tables keep their increments independent of each other.
using Histogram = std::array<std::array<uint32_t, 1 << kBinBits>, 4>;

// Counts (key - least) >> shift.
template <class KeyAt>
void Count(KeyAt key_at, uint64_t count, uint32_t least, int shift, Histogram* histogram) {
  for (auto& table : *histogram) table.fill(0);
  uint64_t i = 0;
  for (; i + 4 <= count; i += 4) {
    for (int t = 0; t < 4; ++t) ++(*histogram)[t][(key_at(i + t) - least) >> shift];
  }
  for (; i < count; ++i) ++(*histogram)[0][(key_at(i) - least) >> shift];
}

// Narrows the range to the bin that holds rank k; returns how many are in it.
uint32_t Descend(const Histogram& histogram, int shift, uint64_t k, KeyRange* range,
                 uint64_t* larger) {
  const auto in_bin = [&](uint32_t bin) {
    return histogram[0][bin] + histogram[1][bin] + histogram[2][bin] + histogram[3][bin];
  };
  uint32_t bin = (range->most - range->least) >> shift;
  while (*larger + in_bin(bin) < k) *larger += in_bin(bin--);
  range->least += bin << shift;
  range->most = std::min(range->most, range->least + ((1u << shift) - 1));
  return in_bin(bin);
}

// So that the range has no more bins than there are.
int ShiftOf(KeyRange range) {
  return std::max(0, static_cast<int>(std::bit_width(range.most - range.least)) - kBinBits);
}

// Of the keys in `range`, which are all that have it.
KthKey FindAmong(std::vector<uint32_t>* keys, uint64_t k, KeyRange range, uint64_t larger) {
  Histogram histogram;
  while (keys->size() > kFew && range.least < range.most) {
    const int shift = ShiftOf(range);
    Count([keys](uint64_t i) { return (*keys)[i]; }, keys->size(), range.least, shift, &histogram);
    Descend(histogram, shift, k, &range, &larger);
    std::erase_if(*keys, [&](uint32_t key) { return key < range.least || key > range.most; });
  }
  if (range.least == range.most) return {range.least, larger};
  const auto kth = keys->begin() + static_cast<std::ptrdiff_t>(k - larger - 1);
  std::nth_element(keys->begin(), kth, keys->end(), std::greater<>());
  const uint32_t key = *kth;
  return {key, larger + static_cast<uint64_t>(std::count_if(
                            keys->begin(), kth, [key](uint32_t other) { return other > key; }))};
}

}  // namespace

KeyRange RangeOf(const float* values, uint64_t count) {
  const uint64_t width = HWY_DYNAMIC_DISPATCH(Width)(), whole = count / width * width;
  KeyRange range;
  if (whole > 0) range = HWY_DYNAMIC_DISPATCH(Range)(values, count / width);
  for (uint64_t i = whole; i < count; ++i) {
    range.least = std::min(range.least, KeyOf(values[i]));
    range.most = std::max(range.most, KeyOf(values[i]));
  }
  return range;
}

KthKey FindKthKey(const float* values, uint64_t count, uint64_t k, KeyRange range) {
  RW_CHECK(k >= 1 && k <= count);
  Histogram histogram;
  uint64_t larger = 0;
  const int shift = ShiftOf(range);
  Count([values](uint64_t i) { return KeyOf(values[i]); }, count, range.least, shift, &histogram);
  const uint32_t in_bin = Descend(histogram, shift, k, &range, &larger);
  if (range.least == range.most) return {range.least, larger};
  const uint64_t width = HWY_DYNAMIC_DISPATCH(Width)(), whole = count / width * width;
  std::vector<uint32_t> keys(in_bin + width);
  uint64_t left = HWY_DYNAMIC_DISPATCH(Gather)(range, values, count / width, keys.data());
  for (uint64_t i = whole; i < count; ++i) {
    const uint32_t key = KeyOf(values[i]);
    if (key >= range.least && key <= range.most) keys[left++] = key;
  }
  keys.resize(left);
  return FindAmong(&keys, k, range, larger);
}

uint64_t KeepAbovePlain(uint32_t key, uint64_t ties, const EntriesView& from, EntryArrays to) {
  uint64_t kept = 0;
  for (uint64_t i = 0; i < from.size(); ++i) {
    const bool tie = KeyOf(from.value[i]) == key && ties > 0;
    if (tie) --ties;
    if (KeyOf(from.value[i]) <= key && !tie) continue;
    to.index[kept] = from.index[i];
    to.value[kept++] = from.value[i];
  }
  return kept;
}

uint64_t KeepAbove(uint32_t key, uint64_t ties, const EntriesView& from, EntryArrays to) {
  const uint64_t width = HWY_DYNAMIC_DISPATCH(Width)(), whole = from.size() / width * width;
  const uint64_t kept = HWY_DYNAMIC_DISPATCH(Keep)(key, &ties, from.index.data(), from.value.data(),
                                                   from.size() / width, to);
  return kept + KeepAbovePlain(key, ties, from.Part(whole, from.size() - whole),
                               {to.index + kept, to.value + kept});
}

}  // namespace ringwood
#endif
