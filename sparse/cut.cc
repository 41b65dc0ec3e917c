#include "sparse/cut.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
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

// The keys with (key & mask) == wanted, of whole vectors; `keys` has room for one vector more.
uint64_t Gather(uint32_t mask, uint32_t wanted, const float* values, uint64_t vectors,
                uint32_t* keys) {
  const D d;
  const auto masks = hn::Set(d, static_cast<int32_t>(mask));
  const auto wants = hn::Set(d, static_cast<int32_t>(wanted));
  uint32_t* to = keys;
  for (uint64_t i = 0; i < vectors; ++i) {
    const auto key = Load(values + i * hn::Lanes(d));
    const auto match = hn::Eq(hn::And(key, masks), wants);
    hn::StoreU(hn::Compress(key, match), d, reinterpret_cast<int32_t*>(to));
    to += hn::CountTrue(d, match);
  }
  return static_cast<uint64_t>(to - keys);
}

// KeepAbove over whole vectors. What is written is never ahead of what is read.
uint64_t Keep(uint32_t key, uint64_t* ties, uint32_t* index, float* value, uint64_t vectors) {
  const D d;
  const hn::RebindToFloat<D> df;
  const size_t lanes = hn::Lanes(d);
  const auto keys = hn::Set(d, static_cast<int32_t>(key));
  auto* const all_index = reinterpret_cast<int32_t*>(index);
  uint64_t kept = 0;
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
    hn::StoreU(hn::Compress(indices, stay), d, all_index + kept);
    hn::StoreU(hn::Compress(values, hn::RebindMask(df, stay)), df, value + kept);
    kept += hn::CountTrue(d, stay);
  }
  return kept;
}

uint64_t Width() { return hn::Lanes(D()); }

}  // namespace HWY_NAMESPACE
}  // namespace ringwood
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ringwood {

HWY_EXPORT(Gather);
HWY_EXPORT(Keep);
HWY_EXPORT(Width);

namespace {

constexpr uint32_t kBins = 2048;
constexpr uint64_t kMostLanes = 16;
constexpr std::array<int, 3> kShift = {20, 10, 0};
constexpr std::array<uint32_t, 3> kMask = {2047, 1023, 1023};
// Neighbours often fall into one bin; four tables keep their increments independent of each other.
using Histogram = std::array<std::array<uint32_t, kBins>, 4>;

template <class KeyAt>
void Count(KeyAt key_at, uint64_t count, int level, Histogram* histogram) {
  const int shift = kShift[level];
  const uint32_t mask = kMask[level];
  for (auto& table : *histogram) table.fill(0);
  uint64_t i = 0;
  for (; i + 4 <= count; i += 4) {
    for (int t = 0; t < 4; ++t) ++(*histogram)[t][key_at(i + t) >> shift & mask];
  }
  for (; i < count; ++i) ++(*histogram)[0][key_at(i) >> shift & mask];
}

// The bin of the level that holds rank k, into the key; returns how many are in it.
uint32_t Descend(const Histogram& histogram, int level, uint64_t k, KthKey* found) {
  const auto in_bin = [&](uint32_t bin) {
    return histogram[0][bin] + histogram[1][bin] + histogram[2][bin] + histogram[3][bin];
  };
  uint32_t bin = kMask[level];
  while (found->larger + in_bin(bin) < k) found->larger += in_bin(bin--);
  found->key |= bin << kShift[level];
  return in_bin(bin);
}

}  // namespace

KthKey FindKthKey(const float* values, uint64_t count, uint64_t k) {
  RW_CHECK(k >= 1 && k <= count);
  Histogram histogram;
  KthKey found;
  Count([values](uint64_t i) { return KeyOf(values[i]); }, count, 0, &histogram);
  const uint32_t in_bin = Descend(histogram, 0, k, &found);
  std::vector<uint32_t> keys(in_bin + kMostLanes);  // those that agree in the known bits
  const uint32_t known = kMask[0] << kShift[0];
  const uint64_t width = HWY_DYNAMIC_DISPATCH(Width)();
  uint64_t left =
      HWY_DYNAMIC_DISPATCH(Gather)(known, found.key, values, count / width, keys.data());
  for (uint64_t i = count / width * width; i < count; ++i) {
    if ((KeyOf(values[i]) & known) == found.key) keys[left++] = KeyOf(values[i]);
  }
  for (int level = 1; level < 3; ++level) {
    Count([&keys](uint64_t i) { return keys[i]; }, left, level, &histogram);
    Descend(histogram, level, k, &found);
    uint64_t kept = 0;
    for (uint64_t i = 0; i < left; ++i) {  // no branch: whether a key matches cannot be predicted
      const uint32_t key = keys[i];
      keys[kept] = key;
      kept += key >> kShift[level] == found.key >> kShift[level] ? 1 : 0;
    }
    left = kept;
  }
  return found;
}

uint64_t KeepAbovePlain(uint32_t key, uint64_t ties, uint32_t* index, float* value,
                        uint64_t count) {
  uint64_t kept = 0;
  for (uint64_t i = 0; i < count; ++i) {
    const bool tie = KeyOf(value[i]) == key && ties > 0;
    if (tie) --ties;
    if (KeyOf(value[i]) <= key && !tie) continue;
    index[kept] = index[i];
    value[kept++] = value[i];
  }
  return kept;
}

uint64_t KeepAbove(uint32_t key, uint64_t ties, uint32_t* index, float* value, uint64_t count) {
  const uint64_t width = HWY_DYNAMIC_DISPATCH(Width)();
  const uint64_t whole = count / width * width;
  const uint64_t kept = HWY_DYNAMIC_DISPATCH(Keep)(key, &ties, index, value, count / width);
  const uint64_t rest = KeepAbovePlain(key, ties, index + whole, value + whole, count - whole);
  std::copy_n(index + whole, rest, index + kept);
  std::copy_n(value + whole, rest, value + kept);
  return kept + rest;
}

}  // namespace ringwood
#endif
