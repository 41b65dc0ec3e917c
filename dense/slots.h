// The values of one chunk on one node, slot by slot: what is sent of a slot, where a payload lands
// and how it is combined. Two kinds: plain (elements travel as they are) and rounded (fp32 travels
// as bf16, the error stays with who rounded).
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "dense/cut.h"
#include "dense/reduce.h"
#include "transport/schedule.h"
#include "transport/transport.h"

namespace ringwood {

struct Values {
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  std::span<const std::byte> input;  // never written
  std::span<std::byte> output;       // as long as the input; the same memory or no overlap
  std::vector<Range> slots;          // the elements of each slot; no two slots overlap
  // fp32 sums only: round what travels to bf16. `error` is added to the input; what is rounded away
  // goes to `next_error`. Both as long as the input, overlapping nothing.
  bool rounded = false;
  std::span<const float> error;
  std::span<float> next_error;
  // For payloads that have nowhere else to land, of one slot at a time; null: one of its own. Runs
  // that come one after the other share it, because fresh memory costs a page fault a page.
  std::shared_ptr<Buffer<std::byte>> scratch = nullptr;
};

class Slots {
 public:
  explicit Slots(const Values& values);
  virtual ~Slots() = default;

  size_t Elements(int slot) const { return values_.slots[slot].count; }
  // Of a message: its element type, its length. `exact` as its step says.
  virtual DataType WireType(bool exact) const = 0;
  size_t Bytes(int slot, bool exact) const { return Elements(slot) * SizeOf(WireType(exact)); }

  struct Outgoing {
    Payload payload;
    bool held;  // the slot does not change before EndSend
  };
  // The slot's present content. Its digest is computed once however often it is sent, and not at
  // all where it goes on as it came.
  Outgoing BeginSend(int slot, bool exact);
  void EndSend(int slot) { --states_[slot].held; }

  // One receive at a time. `theirs_first`: the peer's value is the left operand.
  struct Incoming {
    int slot = 0;
    Op op = Op::kReceive;
    bool theirs_first = false;
    bool exact = false;
  };
  // Where its payload goes: to its place or into the sum at once, where no send reads there.
  ReceiveBuffer BeginReceive(const Incoming& incoming);
  // Its payload is in the slot. False, and nothing done: a send still holds the slot.
  bool EndReceive(const Incoming& incoming, uint64_t checksum);

  // Once, when every message was sent and taken in. Digests of the slots in order, of their bytes
  // as they travel; 0 for those that were never received.
  std::vector<uint64_t> Finish();

 protected:
  struct State {
    bool written = false;            // something was taken in
    bool reduced = false;            // its last value was computed here
    int held = 0;                    // sends that read what a receive would overwrite
    std::optional<uint64_t> digest;  // of the present content as it travels, once it is known
  };

  struct View {
    std::span<const std::byte> bytes;
    bool held;
  };
  virtual View Content(int slot, bool exact) = 0;
  // Memory for the payload of the receive that begins; not the slot's own while it is held.
  virtual std::span<std::byte> Place(const Incoming& incoming) = 0;
  // `payload` may lie in that place; the slot is not held.
  virtual void Combine(const Incoming& incoming, std::span<const std::byte> payload) = 0;
  virtual std::span<const std::byte> Result(int slot) = 0;  // as it travels
  virtual void Close() {}

  std::span<std::byte> Scratch(size_t bytes);

  const Values values_;
  std::vector<State> states_;

 private:
  const std::shared_ptr<Buffer<std::byte>> scratch_;
  std::span<const std::byte> landed_;  // payload of the present receive, until it is combined
};

std::unique_ptr<Slots> MakeSlots(const Values& values);

}  // namespace ringwood
