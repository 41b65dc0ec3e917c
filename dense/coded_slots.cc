#include "dense/coded_slots.h"

#include <cstring>

#include "base/check.h"

namespace ringwood {
namespace {

class CodedSlots : public Slots {
 public:
  explicit CodedSlots(const Values& values)
      : Slots(values),
        levels_(LatticeLevels(values.code_bits)),
        offset_(states_.size()),
        terms_(states_.size()) {
    RW_CHECK(values.type == DataType::kFloat32 && values.op == ReduceOp::kSum);
    RW_CHECK(values.input.data() != values.output.data());
    const size_t elements = values.input.size() / sizeof(float);
    RW_CHECK(values.error.size() == elements && values.next_error.size() == elements);
    RW_CHECK(values.reach.size() == LatticeBlocks(elements));
    RW_CHECK(values.next_reach.size() == LatticeBlocks(elements));
    size_t bytes = 0;
    for (size_t slot = 0; slot < states_.size(); ++slot) {
      offset_[slot] = bytes;
      bytes += Length(static_cast<int>(slot), values.terms);
    }
    if (memory_->packed.size() < bytes) memory_->packed = Buffer<std::byte>(bytes);
  }
  Content ContentOf(const Step& step) const override {
    return {static_cast<uint8_t>(DataType::kUInt8),
            static_cast<uint8_t>(LatticeWidth(levels_, step.terms)), Elements(step.slot)};
  }
  size_t Bytes(const Step& step) const override { return Length(step.slot, step.terms); }

 private:
  size_t Length(int slot, int terms) const {
    return PackedBytes(LatticeBlocks(Elements(slot)), LatticeWidth(levels_, terms));
  }
  std::byte* Packed(int slot) { return memory_->packed.data() + offset_[slot]; }
  std::span<std::byte> Whole(int slot, int terms) { return {Packed(slot), Length(slot, terms)}; }

  LatticeSource Source(int slot) const {
    const Range& range = values_.slots[slot];
    return {reinterpret_cast<const float*>(values_.input.data()) + range.begin,
            values_.error.data() + range.begin,
            values_.next_error.data() + range.begin,
            values_.reach.data() + range.begin / kLatticeBlock,
            range.count,
            levels_,
            values_.less};
  }

  View Present(const Step& step) override {
    const int slot = step.slot;
    if (terms_[slot] == 0) {
      AddSource(Source(slot), nullptr, 0, Packed(slot));
      terms_[slot] = 1;
    }
    RW_CHECK(terms_[slot] == step.terms);
    return {Whole(slot, step.terms), true};
  }

  std::span<std::byte> Place(const Incoming& incoming) override {
    const Step& step = incoming.step;
    if (step.op == Op::kReceive && states_[step.slot].held == 0) {
      return Whole(step.slot, step.terms);
    }
    return Landing(Bytes(step));
  }

  void Combine(const Incoming& incoming, std::span<const std::byte> payload) override {
    const Step& step = incoming.step;
    const int slot = step.slot;
    if (step.op == Op::kReceive) {
      RW_CHECK(terms_[slot] > 0 && step.terms <= values_.terms);
      if (payload.data() != Packed(slot)) {
        std::memcpy(Packed(slot), payload.data(), payload.size());
      }
      terms_[slot] = step.terms;
      return;
    }
    const int terms = terms_[slot] == 0 ? 1 : terms_[slot];
    RW_CHECK(terms + step.terms <= values_.terms);
    if (terms_[slot] == 0) {
      AddSource(Source(slot), payload.data(), step.terms, Packed(slot));
    } else {
      AddPacked({Packed(slot), terms}, payload.data(), step.terms, LatticeBlocks(Elements(slot)),
                levels_);
    }
    terms_[slot] = terms + step.terms;
  }

  std::span<const std::byte> Result(int slot) override { return Whole(slot, terms_[slot]); }

  void Close() override {
    for (size_t s = 0; s < states_.size(); ++s) {
      const int slot = static_cast<int>(s);
      const Range& range = values_.slots[s];
      if (range.count == 0) continue;
      RW_CHECK(terms_[s] == values_.terms);
      const size_t block = range.begin / kLatticeBlock;
      DecodeSum(
          Packed(slot), terms_[s],
          {reinterpret_cast<float*>(values_.output.data()) + range.begin,
           values_.reach.data() + block, values_.next_reach.data() + block, range.count, levels_});
    }
  }

  const int levels_;
  std::vector<size_t> offset_;  // of each slot in the chunk's packed memory
  std::vector<int> terms_;      // in each slot's packed sum; 0: nothing yet
};

}  // namespace

std::unique_ptr<Slots> MakeCodedSlots(const Values& values) {
  return std::make_unique<CodedSlots>(values);
}

}  // namespace ringwood
