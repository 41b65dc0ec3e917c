// One group's way through a round: pack the gradients, exchange, then apply or abort. One
// implementation for each route and place (dense_exchange, sparse_exchange, device_…).
//
// Calls of one round come in order, each on the thread that is named; the pipeline's lock orders
// them. Nothing that the trainer sees changes before Apply.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "base/clock.h"
#include "base/status.h"
#include "dense/lattice/codes.h"
#include "dense/place.h"
#include "sparse/entries.h"
#include "transport/transport.h"

namespace ringwood {

// Heartbeats find deaths and a lost coordinator. This bounds waits for ranks that live but do not
// come: one may evaluate for long while the others wait.
constexpr double kLongestWaitSeconds = 3600;

// What a round brings a tensor. Valid until Apply or Abort.
struct TensorSum {
  std::span<const float> dense;  // the sum, or the average where `average` says so
  bool average = false;
  std::optional<Entries> sparse = std::nullopt;  // instead: the entries of the sum, all else is 0
};

class Exchange {
 public:
  virtual ~Exchange() = default;

  // The gradient of a tensor, in the group's order, is ready: on a device Pack waits for what its
  // stream holds now, and for nothing behind that. Before Pack, in the call of ready. `last`: all
  // others of the group are.
  virtual Status Arrive(size_t tensor, bool last) { return OkStatus(); }

  // Before Pack, on its thread. In a round in which it is not its tensors' turn a group rests: no
  // gradient is read, what is owed stays, no other rank sends anything either, and Apply writes 0.
  virtual void BeginRound(uint64_t round) {}

  // Reads the gradients, multiplied by `weight` (0: they are not read). Runs on the compute loop,
  // and so does `packed`: within the call, or later if a device selects. Then Start may come.
  virtual void Pack(float weight, std::function<void(Status)> packed) = 0;

  // The device's time for the last Pack, from when it had all gradients; valid from `packed` on.
  // Nothing: packing was done within the call.
  virtual std::optional<Duration> packing() const { return std::nullopt; }

  // What Start's thread is told before `done`, by those that know: the first `elements` of the sum
  // of a tensor, in the group's order, are final. More of one tensor follows before the next one's.
  using Reached = std::function<void(size_t tensor, size_t elements)>;
  // Before each Start. Null: nobody looks at sums in this round.
  virtual void TellWhatIsReached(Reached reached) {}

  // Sends and receives. Net loop, and so is `done`, until which all buffers stay valid.
  virtual void Start(Transport* transport, uint64_t round, std::function<void(Status)> done) = 0;

  // After `done` was OK, on the trainer's thread: divides the sum by `total_weight` (0: the result
  // is zeros), writes it over the gradients and commits the residuals.
  virtual void Apply(double total_weight) = 0;

  // Undoes Pack; `packed` does not run any more. Before Start or after `done`, never between.
  // Trainer's thread.
  virtual void Abort() = 0;

  // Valid after `done`.
  virtual uint64_t digest() const = 0;      // of the sum; equal on all ranks
  virtual uint64_t sent_bytes() const = 0;  // by this worker in this round
  virtual bool non_finite() const = 0;      // a NaN or Inf here, or a sum that may overflow

  // The sum of a tensor, in the group's order: after `done` was OK, or as far as it was reported as
  // reached. Only in a round in which somebody is told what is reached. Any thread. Nothing: it is
  // on a device.
  virtual std::optional<TensorSum> sum(size_t tensor) const { return std::nullopt; }

  // Whether non_finite is known from `packed` on, as far as this rank's own gradients are
  // concerned. What only the result shows is the same on all ranks.
  virtual bool checked_when_packed() const { return true; }

  // Something is rounded on the wire, and what is rounded away is kept.
  virtual bool keeps_error() const { return false; }
  // A tensor's rounding error of the wire, which the next round sends, in units of weight *
  // gradient; empty if nothing is rounded. Between rounds, on the trainer's thread; valid until the
  // next Apply. May wait for a device, whose error it returns.
  virtual StatusOr<std::span<const float>> error(size_t tensor) const {
    return std::span<const float>();
  }

  // What its blocks reach, alike on all ranks, where the wire has codes (dense/lattice/codes.h);
  // else empty. As error.
  virtual StatusOr<std::span<const BlockReach>> reach(size_t tensor) const {
    return std::span<const BlockReach>();
  }
};

}  // namespace ringwood
