// A sparse group: each tensor's residual takes the gradient up and gives its k largest entries, the
// tree sums and selects, uncounted entries stay in the residual at commit.
#pragma once

#include <memory>
#include <vector>

#include "base/buffer.h"
#include "client/exchange.h"
#include "client/tensor.h"
#include "sparse/climb.h"
#include "sparse/entries.h"
#include "sparse/sparse_tensor.h"

namespace ringwood {

class SparseExchange : public Exchange {
 public:
  // `tensors` and `states` in the group's order, both outlive this.
  SparseExchange(Climb climb, std::vector<const Tensor*> tensors,
                 std::vector<SparseTensor*> states);

  void Pack(float weight) override;
  void Start(Transport* transport, uint64_t round, std::function<void(Status)> done) override;
  void Apply(double total_weight) override;
  void Abort() override;
  uint64_t digest() const override { return digest_; }
  uint64_t sent_bytes() const override { return descent_.sent_bytes; }
  bool non_finite() const override { return non_finite_; }

 private:
  void Round();
  void Scatter(size_t tensor, uint64_t first, size_t* at, double total_weight);

  const Climb climb_;
  const std::vector<const Tensor*> tensors_;
  const std::vector<SparseTensor*> states_;
  Entries up_;           // this round's picks, coordinates of the group
  Descent descent_;      // the sum over all ranks, and which picks counted
  Buffer<float> zeros_;  // stands for the gradient where the weight is 0
  bool packed_ = false;
  uint64_t digest_ = 0;
  bool non_finite_ = false;
};

}  // namespace ringwood
