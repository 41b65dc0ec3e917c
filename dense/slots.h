// The values of one chunk on one node, slot by slot: what is sent of a slot, where a payload lands
// and how it is combined. Three kinds: plain (elements travel as they are), rounded (fp32 travels
// as bf16, the error stays with who rounded) and coded (fp32 travels as the sums of codes of
// dense/lattice/codes.h, the error stays at the source).
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "dense/arithmetic/reduce.h"
#include "dense/coded_ends.h"
#include "dense/cut.h"
#include "dense/lattice/codes.h"
#include "transport/schedule.h"
#include "transport/transport.h"

namespace ringwood {

// What a chunk needs beside its values. Runs that come one after the other share it, because fresh
// memory costs a page fault a page.
struct ChunkMemory {
  Buffer<std::byte> landing;  // for a payload that has nowhere else to land, of one slot at a time
  Buffer<std::byte> packed;   // codes of all slots
};

struct Values {
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  std::span<const std::byte> input;  // never written
  std::span<std::byte> output;       // as long as the input; the same memory or no overlap
  std::vector<Range> slots;          // the elements of each slot; no two slots overlap
  // fp32 sums only: round what travels to bf16, or to codes of `code_bits`. `error` is added to the
  // input; what is rounded away goes to `next_error`. Both as long as the input, overlapping
  // nothing.
  bool rounded = false;
  int code_bits = 0;  // 0: no codes
  std::span<const float> error;
  std::span<float> next_error;
  // With codes: of the input's blocks. Slots begin with a pack; the result is that of `terms`
  // nodes.
  std::span<const BlockReach> reach;
  std::span<BlockReach> next_reach;
  BlockReach less = 0;  // LatticeSource's
  int terms = 1;
  CodedEnds coded = {};
  std::shared_ptr<ChunkMemory> memory = nullptr;  // null: one of its own
};

class Slots {
 public:
  explicit Slots(const Values& values);
  virtual ~Slots() = default;

  size_t Elements(int slot) const { return values_.slots[slot].count; }
  // Of a step's message.
  virtual Content ContentOf(const Step& step) const = 0;
  virtual size_t Bytes(const Step& step) const = 0;

  struct Outgoing {
    Payload payload;
    bool held;  // the slot does not change before EndSend
  };
  // The slot's present content. Its digest is computed once however often it is sent, and not at
  // all where it goes on as it came.
  Outgoing BeginSend(const Step& step);
  void EndSend(int slot) { --states_[slot].held; }

  // One receive at a time. `theirs_first`: the peer's value is the left operand.
  struct Incoming {
    Step step;
    bool theirs_first = false;
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
  virtual View Present(const Step& step) = 0;
  // Memory for the payload of the receive that begins; not the slot's own while it is held.
  virtual std::span<std::byte> Place(const Incoming& incoming) = 0;
  // `payload` may lie in that place; the slot is not held.
  virtual void Combine(const Incoming& incoming, std::span<const std::byte> payload) = 0;
  virtual std::span<const std::byte> Result(int slot) = 0;  // as it travels
  virtual void Close() {}

  std::span<std::byte> Landing(size_t bytes);

  const Values values_;
  const std::shared_ptr<ChunkMemory> memory_;
  std::vector<State> states_;

 private:
  std::span<const std::byte> landed_;  // payload of the present receive, until it is combined
};

std::unique_ptr<Slots> MakeSlots(const Values& values);

}  // namespace ringwood
