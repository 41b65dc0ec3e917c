#include "sparse/select.h"

#include <algorithm>

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

void KeepLargest(uint64_t k, Entries* entries) {
  const uint64_t count = entries->size();
  if (count <= k) return;
  if (k > 0) {
    float* const value = entries->value.data();
    const KthKey kth = FindKthKey(value, count, k, RangeOf(value, count));
    KeepAbove(kth.key, k - kth.larger, *entries, {entries->index.data(), value});
  }
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
  size_ = settled_ = cut_ = 0;
  nonfinite_ = 0;
  range_ = {};
}

void TopK::Settle() {
  const KeyRange range = RangeOf(value_.data() + settled_, size_ - settled_);
  range_.least = std::min(range_.least, range.least);
  range_.most = std::max(range_.most, range.most);
  if (range_.most >= kFirstNonFiniteKey) DropNonFinite();  // hardly ever
  settled_ = size_;
}

void TopK::DropNonFinite() {
  uint64_t kept = settled_;
  for (uint64_t i = kept; i < size_; ++i) {
    index_[kept] = index_[i];
    value_[kept] = value_[i];
    kept += IsFinite(value_[i]) ? 1 : 0;
  }
  nonfinite_ += size_ - kept;
  size_ = kept;
  range_.most = kFirstNonFiniteKey - 1;
}

uint32_t TopK::KeepLargest(EntryArrays to) {
  const KthKey kth = FindKthKey(value_.data(), size_, k_, range_);
  EntriesView held;
  held.index = {index_.data(), size_};
  held.value = {value_.data(), size_};
  KeepAbove(kth.key, k_ - kth.larger, held, to);
  return kth.key;
}

void TopK::Cut() {
  Settle();
  if (size_ < k_ || k_ == 0) return;
  range_.least = KeepLargest({index_.data(), value_.data()});
  cut_ += size_ - k_;
  size_ = settled_ = k_;
  // An Inf must still be seen and counted, so the floor stays at or below the first of them.
  floor_ = std::min(range_.least + 1, kFirstNonFiniteKey);
}

uint32_t TopK::Take(Entries* picks) {
  Settle();
  uint32_t kth = 1;
  if (size_ < k_ || k_ == 0) {
    picks->index.assign(index_.data(), index_.data() + size_);
    picks->value.assign(value_.data(), value_.data() + size_);
  } else {
    picks->index.resize(k_ + kKeepOverhang);
    picks->value.resize(k_ + kKeepOverhang);
    kth = KeepLargest({picks->index.data(), picks->value.data()});
    picks->index.resize(k_);
    picks->value.resize(k_);
  }
  size_ = settled_ = cut_ = 0;
  return kth;
}

}  // namespace ringwood
