#include "sparse/select.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "sparse/cut.h"

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

// Moves the k first of the order to the front, keeping index order. Returns the k-th key.
uint32_t KeepFirst(uint32_t* index, float* value, uint64_t count, uint64_t k) {
  const KthKey kth = FindKthKey(value, count, k);
  KeepAbove(kth.key, k - kth.larger, index, value, count);
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
  // Hardly ever is there one to take out; the compiler makes vectors of the question.
  unsigned any = 0;
  for (uint64_t i = settled_; i < size_; ++i) any |= IsFinite(value_[i]) ? 0 : 1;
  uint64_t kept = any == 0 ? size_ : settled_;
  for (uint64_t i = kept; i < size_; ++i) {
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
