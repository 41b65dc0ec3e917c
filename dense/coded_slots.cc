#include "dense/coded_slots.h"

#include <algorithm>
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
    const size_t elements = values.error.size(), blocks = LatticeBlocks(elements);
    RW_CHECK(values.next_error.size() == elements);
    RW_CHECK(values.reach.size() == blocks && values.next_reach.size() == blocks);
    if (values.coded.pieces.empty()) {
      RW_CHECK(values.input.size() == elements * sizeof(float));
      pieces_.push_back({reinterpret_cast<const float*>(values.input.data()), 0, elements});
    } else {
      pieces_.assign(values.coded.pieces.begin(), values.coded.pieces.end());
    }
    size_t bytes = 0;
    const int width = LatticeWidth(levels_, values.terms);  // of the widest sums
    for (size_t slot = 0; slot < states_.size(); ++slot) {
      const Range& range = values.slots[slot];
      offset_[slot] =
          values.coded.packed.empty() ? bytes : PackedBytes(LatticeBlocks(range.begin), width);
      bytes += PackedBytes(LatticeBlocks(range.count), width);
    }
    if (values.coded.packed.empty() && memory_->packed.size() < bytes) {
      memory_->packed = Buffer<std::byte>(bytes);
    }
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
  std::byte* Packed(int slot) {
    const CodedEnds& ends = values_.coded;
    return (ends.packed.empty() ? memory_->packed.data() : ends.packed.data()) + offset_[slot];
  }
  std::span<std::byte> Whole(int slot, int terms) { return {Packed(slot), Length(slot, terms)}; }

  // The slot's sum = partial + this node's part. `terms`: of the partial sum.
  void AddOwn(int slot, const std::byte* partial, int terms) {
    const auto [begin, count] = values_.slots[slot];
    const int width = terms == 0 ? 0 : LatticeWidth(levels_, terms);
    const int sum_width = LatticeWidth(levels_, terms + 1);
    // The first piece that does not end before the slot.
    auto piece = std::ranges::partition_point(
        pieces_, [begin = begin](const CodedPiece& one) { return one.begin + one.count <= begin; });
    for (; piece != pieces_.end() && piece->begin < begin + count; ++piece) {
      const size_t first = std::max(piece->begin, begin);
      const size_t end = std::min(piece->begin + piece->count, begin + count);
      LatticeSource from;
      if (values_.coded.weight != 0) from.values = piece->values + (first - piece->begin);
      from.error = values_.error.data() + first;
      from.next_error = values_.next_error.data() + first;
      from.reach = values_.reach.data() + first / kLatticeBlock;
      from.count = end - first;
      from.levels = levels_;
      from.less = values_.less;
      from.weight = values_.coded.weight;
      const size_t blocks = (first - begin) / kLatticeBlock;
      AddSource(from, terms == 0 ? nullptr : partial + PackedBytes(blocks, width), terms,
                Packed(slot) + PackedBytes(blocks, sum_width));
    }
  }

  View Present(const Step& step) override {
    const int slot = step.slot;
    if (terms_[slot] == 0) {
      AddOwn(slot, nullptr, 0);
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
      AddOwn(slot, payload.data(), step.terms);
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
      LatticeResult into;
      if (!values_.output.empty()) {
        into.values = reinterpret_cast<float*>(values_.output.data()) + range.begin;
      }
      into.reach = values_.reach.data() + block;
      into.next_reach = values_.next_reach.data() + block;
      into.count = range.count;
      into.levels = levels_;
      DecodeSum(Packed(slot), terms_[s], into);
    }
  }

  const int levels_;
  std::vector<CodedPiece> pieces_;  // that stand for the input
  std::vector<size_t> offset_;  // of each slot, in the packed memory of the chunk or of the whole
  std::vector<int> terms_;      // in each slot's packed sum; 0: nothing yet
};

}  // namespace

std::unique_ptr<Slots> MakeCodedSlots(const Values& values) {
  return std::make_unique<CodedSlots>(values);
}

}  // namespace ringwood
