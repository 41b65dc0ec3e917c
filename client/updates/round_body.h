// What a round changed, as the update log keeps it (v1::RoundBody and the sums): made before the
// round is voted on, read when a job that lost all its processes starts again.
#pragma once

#include <functional>
#include <list>
#include <span>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "base/status.h"
#include "client/exchange/exchange.h"
#include "client/exchange/tensor.h"

namespace ringwood {

// The registered tensors, by id.
using TensorsById = std::vector<const Tensor*>;

// A round without its sums.
struct RoundFacts {
  uint64_t step = 0;
  bool skipped = false;  // nothing was applied
  double total_weight = 0;
  std::vector<int> members;       // of its epoch: ranks as they were started, ascending
  std::vector<int> contributors;  // those with a weight above 0
  std::string note;               // the trainer's
};

class RoundBody {
 public:
  static constexpr uint64_t kPieceBytes = 1 << 20;  // what the store takes at once

  // By id; nothing: the tensor is on a device, which is Refused.
  using Sums = std::function<std::optional<TensorSum>(size_t id)>;
  // Points into dense sums, so it lives no longer than they. A skipped round has none.
  static StatusOr<RoundBody> Of(const TensorsById& tensors, const Sums& sums,
                                const RoundFacts& facts);

  uint64_t bytes() const;

  // The body from beginning to end, in pieces of at most kPieceBytes; at least one. Stops at the
  // first that `take` returns false for.
  void ForEachPiece(const std::function<bool(uint64_t offset, std::span<const std::byte>,
                                             bool last)>& take) const;

 private:
  std::list<Buffer<std::byte>> owned_;  // what parts point into, but for dense sums
  std::vector<std::span<const std::byte>> parts_;
};

// Writes the averages of a round into the gradients of `tensors`, to the bit as the commit did.
// After an error, which names what does not fit, no gradient was touched.
StatusOr<RoundFacts> ReadRound(uint64_t step, std::span<const std::byte> body,
                               const TensorsById& tensors);

}  // namespace ringwood
