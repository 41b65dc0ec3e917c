// What a round changed, as the update log keeps it: the sums of tensors, or parts of them, one
// after the other as they come, then a tail that lists them (v1::RoundBody), then how long the tail
// is. Made while the round is exchanged, read when a job that lost all its processes starts again.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "base/status.h"
#include "client/exchange/exchange.h"
#include "client/exchange/tensor.h"
#include "ringwood/v1/updates.pb.h"

namespace ringwood {

// The registered tensors, by id.
using TensorsById = std::vector<const Tensor*>;

// A round without its sums.
struct RoundFacts {
  uint64_t step = 0;
  bool skipped = false;  // nothing was applied, and what was summed does not count
  double total_weight = 0;
  std::vector<int> members;       // of its epoch: ranks as they were started, ascending
  std::vector<int> contributors;  // those with a weight above 0
  std::string note;               // the trainer's
};

class RoundBody {
 public:
  // The bytes of what was not yet added of the first `reached` elements of a tensor's sum: its own,
  // or in `memory`, which is used for entries. Those come all at once, whatever is reached.
  std::span<const std::byte> Add(size_t id, uint64_t elements, const TensorSum& sum,
                                 uint64_t reached, Buffer<std::byte>* memory);
  bool has(size_t id, uint64_t reached) const { return id < next_.size() && next_[id] >= reached; }
  // The end of the body. Once.
  std::string Tail(const RoundFacts& facts);

 private:
  v1::RoundBody listed_;
  std::vector<uint64_t> next_;  // by id: the first element that was not added
};

// Writes the averages of a round into the gradients of `tensors`, to the bit as the commit did.
// After an error, which names what does not fit, no gradient was touched.
StatusOr<RoundFacts> ReadRound(uint64_t step, std::span<const std::byte> body,
                               const TensorsById& tensors);

}  // namespace ringwood
