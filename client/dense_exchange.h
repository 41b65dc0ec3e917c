// A dense group: gradients are packed into one flat buffer, the ring sums it out of place into a
// second one, the average goes back into the gradients at commit.
#pragma once

#include <vector>

#include "base/buffer.h"
#include "client/exchange.h"
#include "client/tensor.h"

namespace ringwood {

class DenseExchange : public Exchange {
 public:
  // `tensors` in the group's order; they outlive this.
  DenseExchange(const Place& place, uint32_t group, const Group& spec,
                std::vector<const Tensor*> tensors);

  void Pack(float weight) override;
  void Start(Transport* transport, uint64_t round, std::function<void(Status)> done) override;
  void Apply(double total_weight) override;
  void Abort() override {}
  uint64_t digest() const override { return digest_; }
  uint64_t sent_bytes() const override { return sent_bytes_; }
  bool non_finite() const override { return non_finite_; }

 private:
  const Place place_;
  const uint32_t group_;
  const std::string wire_;
  const std::vector<const Tensor*> tensors_;
  Buffer<float> input_;   // weight * gradient, all tensors one after the other
  Buffer<float> output_;  // the sum over all ranks
  uint64_t digest_ = 0;
  uint64_t sent_bytes_ = 0;
  bool non_finite_ = false;
};

}  // namespace ringwood
