// Sums the top-k entries of a group's tensors over all ranks: the part that sparse exchanges on the
// host and on a device have in common. Entries are sent in the group's coordinates; the sum comes
// back with a mask that says which of the sent entries are in it (were accepted). The others stay
// in their residuals, so that nothing is lost.
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

class TopKAllReduce {
 public:
  explicit TopKAllReduce(Climb climb) : climb_(std::move(climb)) {}

  void Clear();  // the next round
  // The top-k entries of the next tensor, in the group's order; its own coordinates, rising.
  void Add(uint64_t elements, std::span<const uint32_t> index, std::span<const float> value);
  // Rounds the values to what the codec can express; `sent` is told the rounded values of each
  // tensor, which are what its residual gives away.
  void Round(const std::function<void(size_t tensor, std::span<const float> values)>& sent);

  // Net loop; `done` there too.
  void Start(Transport* transport, uint64_t round, std::function<void(Status)> done);

  // After an OK `done`.
  const Entries& result() const { return answer_.result; }
  // The accepted mask: one byte (0 or 1) for each entry that was sent, of all tensors or of one.
  std::span<const uint8_t> accepted() const { return answer_.accepted; }
  std::span<const uint8_t> accepted(size_t tensor) const {
    return accepted().subspan(first_entry_[tensor],
                              first_entry_[tensor + 1] - first_entry_[tensor]);
  }
  uint64_t digest() const { return digest_; }  // of the result
  uint64_t sent_bytes() const { return answer_.sent_bytes; }
  bool finite() const { return finite_; }  // all of the result

 private:
  const Climb climb_;
  Entries sent_;                        // this round's entries, coordinates of the group
  std::vector<size_t> first_entry_{0};  // of each tensor in `sent_`, and their end
  uint64_t elements_ = 0;               // of the tensors so far
  Descent answer_;                      // the sum over all ranks, and the accepted mask
  uint64_t digest_ = 0;
  bool finite_ = true;
};

}  // namespace ringwood
