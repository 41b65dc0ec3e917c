// A dense group: gradients are packed into a flat buffer, all-reduced out of place into a second
// one, and the averages are written into the gradients at commit. Buffers and wire are float32, or
// bfloat16 where the tensors are (kOwnType). With codes on the wire there are no such buffers:
// gradients are encoded as the exchange comes to them, and the sum stays packed until it is decoded
// into them; unless somebody looks at sums (TellWhatIsReached).
//
// With bf16 or codes on the wire (the plan's codec) the group keeps what this rank rounded away, in
// units of weight * gradient, and adds it to its next gradients. A round writes the new errors
// beside the present ones and commit swaps them, so an aborted round leaves them to the bit. The
// same goes for the reaches of codes; every tensor begins with a block of its own, so that no bit
// depends on what it is merged with.
#pragma once

#include <vector>

#include "base/buffer.h"
#include "client/exchange/exchange.h"
#include "client/exchange/tensor.h"
#include "dense/coded_ends.h"
#include "dense/lattice/codes.h"

namespace ringwood {

class DenseExchange : public Exchange {
 public:
  // What the blocks of each tensor reach, in the group's order; empty where nothing is known.
  using Reaches = std::vector<std::span<const BlockReach>>;

  // `tensors` in the group's order; they outlive this. `reaches` are copied if the wire has codes.
  DenseExchange(const Place& place, uint32_t group, const Group& spec,
                std::vector<const Tensor*> tensors, const Reaches& reaches = {});

  void BeginRound(uint64_t round) override { rests_ = !tensors_.front()->HasTurn(round); }
  void Pack(float weight, std::function<void(Status)> packed) override;
  void TellWhatIsReached(Reached reached) override { reached_ = std::move(reached); }
  void Start(Transport* transport, uint64_t round, std::function<void(Status)> done) override;
  void Apply(double total_weight) override;
  void Abort() override {}  // the present errors are unchanged
  uint64_t digest() const override { return digest_; }
  uint64_t sent_bytes() const override { return sent_bytes_; }
  bool non_finite() const override { return non_finite_; }
  std::optional<TensorSum> sum(size_t tensor) const override;
  bool keeps_error() const override { return wire_ == "bf16" || coded(); }
  StatusOr<std::span<const float>> error(size_t tensor) const override;
  StatusOr<std::span<const BlockReach>> reach(size_t tensor) const override;
  void TakeErrors(DenseExchange& from);  // and reaches, of one of the same tensors that ends

 private:
  void TakeReaches(const Reaches& reaches);
  void Tell(size_t elements);     // of the output are final; net loop
  void WidenTo(size_t elements);  // of the output, into wide_; net loop
  bool coded() const { return CodeBits(wire_) != 0; }
  int levels() const { return LatticeLevels(CodeBits(wire_)); }
  // Codes of several ranks: one alone sends none.
  bool encodes() const { return coded() && place_.world > 1; }
  size_t elements() const { return first_.back(); }
  bool narrow() const { return sums_ == DataType::kBFloat16; }
  // Of one of the buffers: a tensor's part.
  template <class Bytes>
  Bytes PartOf(Bytes buffer, size_t tensor) const {
    const size_t width = SizeOf(sums_);
    return buffer.subspan(first_[tensor] * width, tensors_[tensor]->spec.elements * width);
  }
  bool SumIsFinite() const;
  CodedEnds Ends();                                           // of this round
  void DecodeInto(size_t tensor, double total_weight) const;  // its gradient, from the packed sum

  const Place& place_;  // the connection's
  const uint32_t group_;
  const DataType sums_;     // of the buffers
  const std::string wire_;  // of the all-reduce
  const std::vector<const Tensor*> tensors_;
  const std::vector<size_t> first_;  // of each tensor: its place in the buffers; then their length
  // weight * gradient, all tensors one after the other, zeros between; the sum over all ranks.
  Buffer<std::byte> input_, output_;
  Buffer<float> wide_;  // the sum in float32 where it is not, for those that look at it
  // Instead of them, if encodes(): the gradients and their weight, the sum as codes.
  std::vector<CodedPiece> pieces_;
  float weight_ = 0;
  Buffer<std::byte> packed_;
  Buffer<float> error_[2];       // rounded away; [present_] is committed, the other this round's
  Buffer<BlockReach> reach_[2];  // likewise, of the blocks
  int present_ = 0;
  bool rests_ = false;  // this round: nothing is sent
  Reached reached_;
  size_t told_ = 0;     // tensors before it, whole. Touched on the net loop
  size_t widened_ = 0;  // elements that are in wide_. Likewise
  uint64_t digest_ = 0;
  uint64_t sent_bytes_ = 0;
  bool non_finite_ = false;
};

}  // namespace ringwood
