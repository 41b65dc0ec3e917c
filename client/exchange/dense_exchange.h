// A dense group: gradients are packed into a flat buffer, all-reduced out of place into a second
// one, and the averages are written into the gradients at commit.
//
// With bf16 on the wire (the plan's codec) the group keeps what this rank rounded away, in units of
// weight * gradient, and adds it to its next gradients. A round writes the new errors beside the
// present ones and commit swaps them, so an aborted round leaves them to the bit.
#pragma once

#include <vector>

#include "base/buffer.h"
#include "client/exchange/exchange.h"
#include "client/exchange/tensor.h"

namespace ringwood {

class DenseExchange : public Exchange {
 public:
  // `tensors` in the group's order; they outlive this.
  DenseExchange(const Place& place, uint32_t group, const Group& spec,
                std::vector<const Tensor*> tensors);

  void Pack(float weight, std::function<void(Status)> packed) override;
  void Start(Transport* transport, uint64_t round, std::function<void(Status)> done) override;
  void Apply(double total_weight) override;
  void Abort() override {}  // the present errors are unchanged
  uint64_t digest() const override { return digest_; }
  uint64_t sent_bytes() const override { return sent_bytes_; }
  bool non_finite() const override { return non_finite_; }
  std::optional<TensorSum> sum(size_t tensor) const override;
  std::span<const float> error(size_t tensor) const override;
  void TakeErrors(DenseExchange& from);  // of an exchange of the same tensors that ends

 private:
  size_t FirstOf(size_t tensor) const;  // its place in the buffers

  const Place& place_;  // the connection's
  const uint32_t group_;
  const std::string wire_;
  const std::vector<const Tensor*> tensors_;
  Buffer<float> input_;     // weight * gradient, all tensors one after the other
  Buffer<float> output_;    // the sum over all ranks
  Buffer<float> error_[2];  // rounded away; [present_] is committed, the other this round's
  int present_ = 0;
  uint64_t digest_ = 0;
  uint64_t sent_bytes_ = 0;
  bool non_finite_ = false;
};

}  // namespace ringwood
