// Selection of the k entries of largest magnitude by the order of key.h.
//
// Picks from a tensor: at most k, never ±0 (it carries no mass, so nothing is lost by keeping it,
// and an all-zero gradient costs no bytes), never NaN or Inf (those are counted). Sums at a reducer
// are cut by KeepLargest, which takes zeros too: a sum that cancelled is applied, and its parts
// leave the residuals.
#pragma once

#include <cstdint>
#include <span>

#include "base/buffer.h"
#include "sparse/cut.h"
#include "sparse/entries.h"
#include "sparse/key.h"

namespace ringwood {

// The reference: sorts everything. Faster ways are tested against it.
Entries SelectPlain(std::span<const float> values, uint64_t k);

// Keeps the min(k, size) first entries of the order, in index order.
void KeepLargest(uint64_t k, Entries* entries);

// The k largest of a stream of (index, value) with rising indices, in bounded memory and one pass.
//
// Values whose key is below floor() need not be offered. When the room is used up the list cuts
// itself to k and raises the floor: a later value needs a larger key than the k-th, because an
// equal key with a larger index loses. So a start at floor 1 is exact, and a good guess only makes
// it faster.
class TopK {
 public:
  static constexpr uint64_t kSlack = 4096;  // room beyond 2k, so that tiny k cut rarely

  TopK(uint64_t elements, uint64_t k);

  void Restart(uint32_t floor);  // floor >= 1

  uint32_t floor() const { return floor_; }
  uint64_t k() const { return k_; }
  uint64_t size() const { return size_; }
  uint64_t offered() const { return size_ + cut_; }  // those too that Cut has dropped; finite ones
  uint64_t nonfinite() const { return nonfinite_; }

  // How many values may be offered before Cut must run; always at least kSlack / 2 after a Cut.
  uint64_t room() const { return capacity_ - size_; }

  // Precondition: room() > 0. Values below the floor are allowed and ignored.
  void Offer(uint32_t index, float value) {
    const uint32_t key = KeyOf(value);
    if (key < floor_) return;
    if (key >= kFirstNonFiniteKey) {
      ++nonfinite_;
      return;
    }
    index_[size_] = index;
    value_[size_] = value;
    ++size_;
  }

  // For callers that write entries directly behind the last one: at most room() of them, of values
  // at or above the floor, in index order; NaN and Inf too, which stay until Settle. A vectorized
  // caller may write up to kOverhang entries more than it adds.
  static constexpr uint64_t kOverhang = 4;
  uint32_t* end_index() { return index_.data() + size_; }
  float* end_value() { return value_.data() + size_; }
  void Add(uint64_t count) { size_ += count; }

  // Removes NaN and Inf from the list and counts them; needed after Add, before any call but
  // another offer.
  void Settle();

  // Cuts to the k largest; raises the floor when that many are held.
  void Cut();

  // Moves the k largest out, in index order; the list is empty then. The key of the k-th, or 1 when
  // there are fewer.
  uint32_t Take(Entries* picks);

 private:
  void DropNonFinite();
  uint32_t KeepLargest(EntryArrays to);  // settled, at least k; writes k, returns the k-th key

  uint64_t k_;
  uint64_t capacity_;
  uint64_t size_ = 0;
  uint64_t cut_ = 0;      // dropped by Cut
  uint64_t settled_ = 0;  // so many of them are known to be finite
  uint64_t nonfinite_ = 0;
  uint32_t floor_ = 1;
  KeyRange range_;  // of what is settled
  Buffer<uint32_t> index_;
  Buffer<float> value_;
};

}  // namespace ringwood
