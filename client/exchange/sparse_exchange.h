// A sparse group: each tensor's gradient is added to its residual, whose k largest entries are sent
// up the tree; the tree sums and selects. Entries that are not accepted stay in the residual.
#pragma once

#include <vector>

#include "base/buffer.h"
#include "client/exchange/exchange.h"
#include "client/exchange/tensor.h"
#include "client/exchange/top_k_all_reduce.h"
#include "sparse/sparse_tensor.h"

namespace ringwood {

class SparseExchange : public Exchange {
 public:
  // `tensors` and `states` in the group's order, both outlive this.
  SparseExchange(Climb climb, std::vector<const Tensor*> tensors,
                 std::vector<SparseTensor*> states);

  // A group that rests sends messages without entries: reducers wait for every group.
  void BeginRound(uint64_t round) override { rests_ = !tensors_.front()->HasTurn(round); }
  void Pack(float weight, std::function<void(Status)> packed) override;
  void Start(Transport* transport, uint64_t round, std::function<void(Status)> done) override {
    all_reduce_.Start(transport, round, std::move(done));
  }
  void Apply(double total_weight) override;
  void Abort() override;
  uint64_t digest() const override { return all_reduce_.digest(); }
  uint64_t sent_bytes() const override { return all_reduce_.sent_bytes(); }
  bool non_finite() const override { return non_finite_ || !all_reduce_.finite(); }
  std::optional<TensorSum> sum(size_t tensor) const override;

 private:
  void Scatter(size_t tensor, uint64_t first, size_t* at, double total_weight);

  TopKAllReduce all_reduce_;
  const std::vector<const Tensor*> tensors_;
  const std::vector<SparseTensor*> states_;
  Buffer<float> zeros_;  // the gradient's stand-in when the weight is 0
  bool packed_ = false;
  bool rests_ = false;       // this round
  bool non_finite_ = false;  // here
};

}  // namespace ringwood
