#include "sparse/select.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "base/check.h"

namespace ringwood {

Entries SelectPlain(std::span<const float> values, uint64_t k) {
  std::vector<uint32_t> order;
  for (uint32_t i = 0; i < values.size(); ++i) {
    if (KeyOf(values[i]) != 0 && IsFinite(values[i])) order.push_back(i);
  }
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    const uint32_t key_a = KeyOf(values[a]), key_b = KeyOf(values[b]);
    return key_a != key_b ? key_a > key_b : a < b;
  });
  order.resize(std::min<uint64_t>(k, order.size()));
  std::sort(order.begin(), order.end());
  Entries picks;
  for (uint32_t i : order) picks.push_back(i, values[i]);
  return picks;
}

namespace {

constexpr uint32_t kBins = 2048;
// Neighbours often fall into one bin; four tables keep their increments independent of each other.
using Histogram = std::array<std::array<uint32_t, kBins>, 4>;

void Count(const uint32_t* keys, uint64_t count, int shift, uint32_t mask, Histogram* histogram) {
  for (auto& table : *histogram) table.fill(0);
  uint64_t i = 0;
  for (; i + 4 <= count; i += 4) {
    for (int t = 0; t < 4; ++t) ++(*histogram)[t][keys[i + t] >> shift & mask];
  }
  for (; i < count; ++i) ++(*histogram)[0][keys[i] >> shift & mask];
}

}  // namespace

KthKey FindKthKey(const float* values, uint64_t count, uint64_t k) {
  RW_CHECK(k >= 1 && k <= count);
  constexpr std::array<int, 3> kShift = {20, 10, 0};
  constexpr std::array<uint32_t, 3> kMask = {2047, 1023, 1023};
  std::vector<uint32_t> keys(count);  // those that still agree with the k-th in the known bits
  for (uint64_t i = 0; i < count; ++i) keys[i] = KeyOf(values[i]);
  Histogram histogram;
  KthKey found;
  for (size_t level = 0; level < kShift.size(); ++level) {
    Count(keys.data(), count, kShift[level], kMask[level], &histogram);
    const auto in_bin = [&](uint32_t bin) {
      return histogram[0][bin] + histogram[1][bin] + histogram[2][bin] + histogram[3][bin];
    };
    uint32_t bin = kMask[level];
    while (found.larger + in_bin(bin) < k) found.larger += in_bin(bin--);
    found.key |= bin << kShift[level];
    uint64_t kept = 0;
    for (uint64_t i = 0; i < count; ++i) {  // no branch: whether a key matches cannot be predicted
      const uint32_t key = keys[i];
      keys[kept] = key;
      kept += (key >> kShift[level] & kMask[level]) == bin ? 1 : 0;
    }
    count = kept;
  }
  return found;
}

namespace {

// Moves the k first of the order to the front, keeping index order. Returns the k-th key.
uint32_t KeepFirst(uint32_t* index, float* value, uint64_t count, uint64_t k) {
  const KthKey kth = FindKthKey(value, count, k);
  uint64_t ties = k - kth.larger;
  uint64_t kept = 0;
  for (uint64_t i = 0; i < count; ++i) {
    const uint32_t key = KeyOf(value[i]);
    const uint64_t tie = (key == kth.key) & (ties > 0);
    ties -= tie;
    index[kept] = index[i];
    value[kept] = value[i];
    kept += (key > kth.key) | tie;
  }
  return kth.key;
}

}  // namespace

void KeepLargest(uint64_t k, Entries* entries) {
  if (entries->size() <= k) return;
  if (k > 0) KeepFirst(entries->index.data(), entries->value.data(), entries->size(), k);
  entries->index.resize(k);
  entries->value.resize(k);
}

TopK::TopK(uint64_t elements, uint64_t k)
    : k_(std::min(k, elements)),
      capacity_(std::min(elements, 2 * k_) + kSlack),
      index_(capacity_),
      value_(capacity_) {
  RW_CHECK(k_ >= 1 || elements == 0);
}

void TopK::Restart(uint32_t floor) {
  RW_CHECK(floor >= 1);
  floor_ = floor;
  size_ = settled_ = 0;
  nonfinite_ = 0;
}

void TopK::Settle() {
  uint64_t kept = settled_;
  for (uint64_t i = settled_; i < size_; ++i) {
    index_[kept] = index_[i];
    value_[kept] = value_[i];
    kept += IsFinite(value_[i]) ? 1 : 0;
  }
  nonfinite_ += size_ - kept;
  size_ = settled_ = kept;
}

void TopK::Cut() {
  Settle();
  if (size_ < k_ || k_ == 0) return;
  const uint32_t kth = size_ == k_ ? FindKthKey(value_.data(), size_, k_).key
                                   : KeepFirst(index_.data(), value_.data(), size_, k_);
  size_ = settled_ = k_;
  // An Inf must still be seen and counted, so the floor stays at or below the first of them.
  floor_ = std::max(floor_, std::min(kth + 1, kFirstNonFiniteKey));
}

uint32_t TopK::Take(Entries* picks) {
  Cut();
  const uint32_t kth = size_ == k_ && k_ > 0 ? floor_ - 1 : 1;
  picks->index.assign(index_.data(), index_.data() + size_);
  picks->value.assign(value_.data(), value_.data() + size_);
  size_ = settled_ = 0;
  return std::max(kth, 1u);
}

}  // namespace ringwood
