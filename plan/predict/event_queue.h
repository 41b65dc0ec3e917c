// Events in the order of their times, those of one time in the order in which they came: a radix
// heap (Ahuja, Mehlhorn, Orlin, Tarjan 1990). Times never go back: what is pushed is not earlier
// than what was popped last. An event moves a few times at most, where a binary heap compares it
// with a dozen others.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/check.h"

namespace ringwood {

template <typename Event>
class EventQueue {
 public:
  bool empty() const { return size_ == 0; }

  // 0 <= seconds. The new event, to be filled in before the next call.
  Event& Push(double seconds) {
    const uint64_t key = std::bit_cast<uint64_t>(seconds);  // ordered as the numbers are
    RW_CHECK(key >= last_);
    ++size_;
    std::vector<Item>& bucket = buckets_[BucketOf(key)];
    bucket.push_back({key, {}});
    return bucket.back().event;
  }

  // Not empty.
  std::pair<double, Event> Pop() {
    if (next_ == buckets_[0].size()) Refill();
    --size_;
    const Item& item = buckets_[0][next_++];
    return {std::bit_cast<double>(item.key), item.event};
  }

 private:
  struct Item {
    uint64_t key;
    Event event;
  };

  // Bucket b > 0 has the keys that differ from the last one in bit b - 1 and none above it.
  size_t BucketOf(uint64_t key) const { return static_cast<size_t>(std::bit_width(key ^ last_)); }

  void Refill() {
    buckets_[0].clear();
    next_ = 0;
    size_t first = 1;
    while (buckets_[first].empty()) ++first;
    moving_.swap(buckets_[first]);
    uint64_t least = moving_[0].key, differing = 0;
    for (const Item& item : moving_) {
      least = std::min(least, item.key);
      differing |= item.key ^ moving_[0].key;
    }
    last_ = least;
    if (differing == 0) return moving_.swap(buckets_[0]);
    for (const Item& item : moving_) buckets_[BucketOf(item.key)].push_back(item);
    moving_.clear();
  }

  std::array<std::vector<Item>, 65> buckets_;
  std::vector<Item> moving_;
  size_t next_ = 0;  // of bucket 0, whose keys are all the last one
  size_t size_ = 0;
  uint64_t last_ = 0;
};

}  // namespace ringwood
