// The values of one chunk on one node, slot by slot: what is sent of a slot, where a payload lands
// and how it is combined. Two kinds: plain (elements travel as they are) and rounded (fp32 travels
// as bf16, the error stays with who rounded).
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "dense/reduce.h"
#include "transport/schedule.h"

namespace ringwood {

struct Values {
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  std::span<const std::byte> input;  // never written
  std::span<std::byte> output;       // as long as the input; the same memory or no overlap
  std::vector<size_t> bounds;        // slot s is the elements [bounds[s], bounds[s+1])
  // fp32 sums only: round what travels to bf16. `error` is added to the input; what is rounded away
  // goes to `next_error`. Both as long as the input, overlapping nothing.
  bool rounded = false;
  std::span<const float> error;
  std::span<float> next_error;
};

class Slots {
 public:
  explicit Slots(const Values& values) : values_(values), states_(values.bounds.size() - 1) {}
  virtual ~Slots() = default;

  size_t Elements(int slot) const { return values_.bounds[slot + 1] - values_.bounds[slot]; }
  size_t Bytes(int slot) const { return Elements(slot) * SizeOf(wire_type()); }  // that travel
  virtual DataType wire_type() const = 0;

  struct Outgoing {
    std::span<const std::byte> bytes;
    bool held;  // the slot does not change before EndSend
  };
  // The slot's present content.
  Outgoing BeginSend(int slot);
  void EndSend(int slot) { --states_[slot].held; }

  // Where the payload of a receive into `slot` lands; one at a time.
  std::span<std::byte> Landing(int slot, Op op);
  // Combines the payload that has landed. False, and nothing done: a send still holds the slot.
  // `theirs_first`: the peer's value is the left operand.
  bool TakeIn(int slot, Op op, bool theirs_first, uint64_t checksum);

  // Once, when every message was sent and taken in. Digests of the slots in order, of their bytes
  // as they travel; 0 for those that were never received.
  std::vector<uint64_t> Finish();

 protected:
  struct State {
    bool written = false;  // something was taken in
    bool reduced = false;  // its last value was computed here
    int held = 0;          // sends that read what a receive would overwrite
    uint64_t digest = 0;
  };

  virtual Outgoing Content(int slot) = 0;
  virtual std::span<std::byte> Place(int slot, Op op) = 0;
  virtual void Combine(int slot, Op op, bool theirs_first) = 0;
  virtual std::span<const std::byte> Result(int slot) = 0;  // as it travels
  virtual void Close() {}

  const Values values_;
  std::vector<State> states_;
};

std::unique_ptr<Slots> MakeSlots(const Values& values);

// Cuts `count` elements into `slots` ranges that differ by one element at most: slots+1 bounds.
std::vector<size_t> EvenBounds(size_t count, int slots);

}  // namespace ringwood
