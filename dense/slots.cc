#include "dense/slots.h"

#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/digest.h"
#include "dense/arithmetic/rounding.h"
#include "dense/coded_slots.h"

namespace ringwood {
namespace {

// A slot is sent from the input until something was received into it, from the output afterwards.
// Where the schedule allows (ring), payloads land directly in the output and are combined there.
class PlainSlots : public Slots {
 public:
  using Slots::Slots;
  Content ContentOf(const Step& step) const override {
    return {static_cast<uint8_t>(values_.type), 0, Elements(step.slot)};
  }
  size_t Bytes(const Step& step) const override { return Length(step.slot); }

 private:
  size_t Offset(int slot) const { return values_.slots[slot].begin * SizeOf(values_.type); }
  size_t Length(int slot) const { return Elements(slot) * SizeOf(values_.type); }
  std::span<const std::byte> Input(int slot) const {
    return values_.input.subspan(Offset(slot), Length(slot));
  }
  std::span<std::byte> Output(int slot) const {
    return values_.output.subspan(Offset(slot), Length(slot));
  }
  bool InPlace() const { return values_.input.data() == values_.output.data(); }

  View Present(const Step& step) override {
    if (states_[step.slot].written || InPlace()) return {Output(step.slot), true};
    return {Input(step.slot), false};
  }

  std::span<std::byte> Place(const Incoming& incoming) override {
    // Whether the payload may land in the output: nothing reads there, and a sum not yet begun.
    const int slot = incoming.step.slot;
    const State& state = states_[slot];
    const bool begun = state.written || InPlace();
    if (state.held == 0 && (incoming.step.op == Op::kReceive || !begun)) return Output(slot);
    return Landing(Length(slot));
  }

  void Combine(const Incoming& incoming, std::span<const std::byte> payload) override {
    const int slot = incoming.step.slot;
    std::byte* const output = Output(slot).data();
    if (incoming.step.op == Op::kReceiveReduce) {
      const std::byte* mine = states_[slot].written ? output : Input(slot).data();
      const std::byte* theirs = payload.data();
      if (incoming.theirs_first) std::swap(mine, theirs);
      Reduce(values_.type, values_.op, mine, theirs, output, Elements(slot));
    } else if (payload.data() != output) {
      std::memcpy(output, payload.data(), payload.size());
    }
  }

  std::span<const std::byte> Result(int slot) override { return Output(slot); }
};

// For schedules in which a node rounds each slot at most once, before or while it combines what
// came rounded (rings: its own slot first, every other after adding to it), and exact messages come
// before rounded ones. The wire form of a slot lies in the second half of the slot's output until
// everything is sent; then it is widened in place.
//
// What comes exact is added to the error: next_error = error + exact…, and this node rounds
// input + next_error. What leaves exact takes the error along whole: no error stays.
class RoundedSlots : public Slots {
 public:
  explicit RoundedSlots(const Values& values)
      : Slots(values), settled_(states_.size()), gathered_(states_.size()) {
    RW_CHECK(values.type == DataType::kFloat32 && values.op == ReduceOp::kSum);
    RW_CHECK(values.input.data() != values.output.data());
    const size_t elements = values.input.size() / sizeof(float);
    RW_CHECK(values.error.size() == elements && values.next_error.size() == elements);
  }
  Content ContentOf(const Step& step) const override {
    return {static_cast<uint8_t>(TypeOf(step)), 0, Elements(step.slot)};
  }
  size_t Bytes(const Step& step) const override {
    return Elements(step.slot) * SizeOf(TypeOf(step));
  }

 private:
  static DataType TypeOf(const Step& step) {
    return step.exact ? DataType::kFloat32 : DataType::kBFloat16;
  }
  const float* Input(int slot) const {
    return reinterpret_cast<const float*>(values_.input.data()) + values_.slots[slot].begin;
  }
  float* Output(int slot) const {
    return reinterpret_cast<float*>(values_.output.data()) + values_.slots[slot].begin;
  }
  uint16_t* Wire(int slot) const { return HalfBehind(Output(slot), Elements(slot)); }
  float* NextError(int slot) const { return values_.next_error.data() + values_.slots[slot].begin; }
  // What this node adds to its input: its error, and what has come exact.
  const float* Owed(int slot) const {
    return gathered_[slot] ? NextError(slot) : values_.error.data() + values_.slots[slot].begin;
  }
  std::span<std::byte> WireBytes(int slot) const {
    return {reinterpret_cast<std::byte*>(Wire(slot)), Elements(slot) * sizeof(uint16_t)};
  }

  View Present(const Step& step) override {
    const int slot = step.slot;
    const bool first = std::exchange(settled_[slot], 1) == 0;
    if (step.exact) {
      RW_CHECK(first && !gathered_[slot]);
      float* const output = Output(slot);
      Reduce(DataType::kFloat32, ReduceOp::kSum, Input(slot), Owed(slot), output, Elements(slot));
      std::fill_n(NextError(slot), Elements(slot), 0.0f);
      return {{reinterpret_cast<std::byte*>(output), Bytes(step)}, true};
    }
    if (first) RoundSum(Input(slot), Owed(slot), Wire(slot), NextError(slot), Elements(slot));
    return {WireBytes(slot), true};
  }

  std::span<std::byte> Place(const Incoming& incoming) override {
    const int slot = incoming.step.slot;
    if (!incoming.step.exact && states_[slot].held == 0) return WireBytes(slot);
    return Landing(Bytes(incoming.step));
  }

  void Combine(const Incoming& incoming, std::span<const std::byte> payload) override {
    const int slot = incoming.step.slot;
    if (incoming.step.exact) {
      RW_CHECK(incoming.step.op == Op::kReceiveReduce && !settled_[slot]);
      Reduce(DataType::kFloat32, ReduceOp::kSum, Owed(slot), payload.data(), NextError(slot),
             Elements(slot));
      gathered_[slot] = 1;
    } else if (incoming.step.op == Op::kReceiveReduce) {
      RW_CHECK(std::exchange(settled_[slot], 1) == 0);
      RoundPartialSum(reinterpret_cast<const uint16_t*>(payload.data()), Input(slot), Owed(slot),
                      Wire(slot), NextError(slot), Elements(slot));
    } else if (payload.data() != WireBytes(slot).data()) {
      std::memcpy(Wire(slot), payload.data(), payload.size());
    }
  }

  std::span<const std::byte> Result(int slot) override { return WireBytes(slot); }

  void Close() override {
    for (size_t slot = 0; slot < states_.size(); ++slot) {
      WidenBehind(Output(static_cast<int>(slot)), Elements(static_cast<int>(slot)));
    }
  }

  std::vector<uint8_t> settled_;   // 1: this node's part of the slot is on its way
  std::vector<uint8_t> gathered_;  // 1: something came exact
};

}  // namespace

Slots::Slots(const Values& values)
    : values_(values),
      memory_(values.memory ? values.memory : std::make_shared<ChunkMemory>()),
      states_(values.slots.size()) {}

std::span<std::byte> Slots::Landing(size_t bytes) {
  if (memory_->landing.size() < bytes) memory_->landing = Buffer<std::byte>(bytes);
  return memory_->landing.span().first(bytes);
}

// From BeginSend to EndSend of a held view the slot's bytes do not change: a payload that arrives
// meanwhile lands in scratch memory, and EndReceive returns false until the last send has ended. So
// all sends of a slot share one content and one digest.
Slots::Outgoing Slots::BeginSend(const Step& step) {
  const View view = Present(step);
  State& state = states_[step.slot];
  if (view.held) ++state.held;
  if (!state.digest.has_value()) state.digest = Digest(view.bytes);
  return {{view.bytes, state.digest}, view.held};
}

ReceiveBuffer Slots::BeginReceive(const Incoming& incoming) {
  const std::span<std::byte> place = Place(incoming);
  landed_ = place;
  if (states_[incoming.step.slot].held != 0) return place;
  return {place, [this, incoming](std::span<const std::byte> payload) {
            landed_ = {};
            if (payload.size() == Bytes(incoming.step)) Combine(incoming, payload);
          }};
}

bool Slots::EndReceive(const Incoming& incoming, uint64_t checksum) {
  State& state = states_[incoming.step.slot];
  if (state.held != 0) return false;
  if (landed_.data() != nullptr) Combine(incoming, landed_);
  landed_ = {};
  state.written = true;
  state.reduced = incoming.step.op == Op::kReceiveReduce;
  state.digest.reset();
  if (!state.reduced) state.digest = checksum;
  return true;
}

std::vector<uint64_t> Slots::Finish() {
  std::vector<uint64_t> digests;
  for (size_t slot = 0; slot < states_.size(); ++slot) {
    const State& state = states_[slot];
    if (state.reduced && !state.digest.has_value()) {
      digests.push_back(Digest(Result(static_cast<int>(slot))));
    } else {
      digests.push_back(state.written ? *state.digest : 0);
    }
  }
  Close();
  return digests;
}

std::unique_ptr<Slots> MakeSlots(const Values& values) {
  if (values.code_bits != 0) return MakeCodedSlots(values);
  if (values.rounded) return std::make_unique<RoundedSlots>(values);
  return std::make_unique<PlainSlots>(values);
}

}  // namespace ringwood
