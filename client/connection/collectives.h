// All-reduce, its two halves and broadcast outside the plan: immediate, blocking, in the same order
// on every rank.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "base/status.h"
#include "client/connection/run_ahead.h"
#include "dense/all_reduce.h"
#include "dense/cut.h"
#include "dense/shares.h"

namespace ringwood {

class EpochLink;

class Collectives {
 public:
  // Data passes through buffers of this size, so that the caller's memory is never touched after a
  // call returned, whatever failed. kPieces are in flight at once: one is copied while another is
  // sent.
  static constexpr size_t kPieceBytes = 16 << 20;
  static constexpr size_t kPieces = 2;
  // After so many bytes a broadcast's root waits for all ranks.
  static constexpr size_t kMostAhead = kPieces * kPieceBytes;

  explicit Collectives(EpochLink* link) : link_(link) {}  // its owner

  // Without `strategy` it is chosen by the place's cost. Of an average, here and below, the result
  // is the sum: the caller divides it.
  Status AllReduce(std::span<std::byte> data, DataType type, ReduceOp op,
                   std::optional<Strategy> strategy = std::nullopt);
  Status Broadcast(std::span<std::byte> data, int root);
  // This rank's share of `data` (CutEvenly) becomes the combination; the rest is unchanged.
  Status ReduceScatter(std::span<std::byte> data, DataType type, ReduceOp op);
  // Reads this rank's share of `data` and writes the others'.
  Status AllGather(std::span<std::byte> data, DataType type);
  Status Meet();  // until all ranks are there

 private:
  using Bytes = std::span<std::byte>;
  using StartShares = void (*)(Transport*, const SharesRequest&, std::function<void(Status)>);

  // A call, piece by piece. Everything but `start` runs on the caller's thread.
  struct Call {
    const char* what;
    size_t pieces;
    std::function<size_t(size_t piece)> bytes;
    std::function<void(size_t piece, Bytes)> fill;
    // On the net loop: exchanges the filled bytes in place, as number `call` of the immediate lane.
    std::function<void(Transport*, uint64_t call, Bytes, std::function<void(Status)>)> start;
    std::function<void(size_t piece, Bytes)> take;
  };
  struct Slot;

  Status RunInOrder(Bytes data, const char* what, decltype(Call::start) start);
  Status RunShares(Bytes data, DataType type, ReduceOp op, const char* what, StartShares start,
                   bool scatters);
  Status Run(const Call& call);
  Status Begin(const Call& call, size_t piece);
  Status End(const Call& call, size_t piece);

  EpochLink* const link_;
  uint64_t calls_ = 0;  // pieces so far: their names on the immediate lane
  uint64_t ended_ = 0;  // of them those that were waited for
  RunAhead ahead_{kMostAhead};
  // Piece i of a call is in slot i % kPieces. They keep their buffers. The net loop shares a slot
  // while its piece is under way, since a call that fails may end before it.
  std::shared_ptr<Slot> slots_[kPieces];
};

// data[i] /= divisor, for the floating types only.
Status Divide(std::span<std::byte> data, DataType type, double divisor);

}  // namespace ringwood
