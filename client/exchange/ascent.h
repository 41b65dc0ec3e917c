// What every sparse exchange does alike, wherever its residuals lie: the picks of a group's tensors
// go up in coordinates of the group, and what came down is kept and judged.
//
// One round at a time; the threads are those of the exchange.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "sparse/climb.h"
#include "sparse/entries.h"

namespace ringwood {

class Ascent {
 public:
  explicit Ascent(Climb climb) : climb_(std::move(climb)) {}

  void Clear();  // the next round
  // The picks of the next tensor, in the group's order; its own coordinates, rising.
  void Add(uint64_t elements, std::span<const uint32_t> index, std::span<const float> value);
  // A coarse codec rounds: `sent` hears for each tensor what its residual must give away.
  void Round(const std::function<void(size_t tensor, std::span<const float> values)>& sent);

  // Net loop; `done` there too.
  void Start(Transport* transport, uint64_t round, std::function<void(Status)> done);

  // From an OK `done` on. One byte (0 or 1) for each pick of all tensors, or of one.
  const Entries& result() const { return descent_.result; }
  std::span<const uint8_t> counted() const { return descent_.counted; }
  std::span<const uint8_t> counted(size_t tensor) const {
    return counted().subspan(first_pick_[tensor], first_pick_[tensor + 1] - first_pick_[tensor]);
  }
  uint64_t digest() const { return digest_; }  // of the result
  uint64_t sent_bytes() const { return descent_.sent_bytes; }
  bool finite() const { return finite_; }  // all of the result

 private:
  const Climb climb_;
  Entries up_;                         // this round's picks, coordinates of the group
  std::vector<size_t> first_pick_{0};  // of each tensor in `up_`, and their end
  uint64_t elements_ = 0;              // of the tensors so far
  Descent descent_;                    // the sum over all ranks, and which picks counted
  uint64_t digest_ = 0;
  bool finite_ = true;
};

}  // namespace ringwood
