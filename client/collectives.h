// All-reduce, its two halves and broadcast outside the plan: immediate, blocking, in the same order
// on every rank.
#pragma once

#include <optional>
#include <span>

#include "client/connection.h"
#include "dense/all_reduce.h"
#include "dense/cut.h"
#include "dense/shares.h"

namespace ringwood {

class Collectives {
 public:
  // Bytes that travel as one call. Data passes through a buffer of this size, so that the caller's
  // memory is never touched after a call returned, whatever failed.
  static constexpr size_t kPieceBytes = 32 << 20;

  explicit Collectives(Connection* connection) : connection_(connection) {}

  // `strategy`: nothing: chosen by the place's cost.
  Status AllReduce(std::span<std::byte> data, DataType type, ReduceOp op,
                   std::optional<Strategy> strategy = std::nullopt);
  Status Broadcast(std::span<std::byte> data, int root);
  // This rank's share of `data` (CutEvenly) becomes the combination; the rest stays as it is.
  Status ReduceScatter(std::span<std::byte> data, DataType type, ReduceOp op);
  // Reads this rank's share of `data` and writes the others'.
  Status AllGather(std::span<std::byte> data, DataType type);

 private:
  using StartShares = void (*)(Transport*, const SharesRequest&, std::function<void(Status)>);
  Status RunShares(std::span<std::byte> data, DataType type, ReduceOp op, const char* what,
                   StartShares start, bool scatters);
  // Runs `start` on the net loop over a copy of `piece` and copies the result back.
  using StartPiece =
      std::function<void(Transport*, std::span<std::byte>, std::function<void(Status)>)>;
  Status Run(std::span<std::byte> piece, const char* what, StartPiece start);

  Connection* const connection_;
  uint64_t calls_ = 0;  // pieces so far: their names on the immediate lane
};

// data[i] /= divisor, for the floating types only.
Status Divide(std::span<std::byte> data, DataType type, double divisor);

}  // namespace ringwood
