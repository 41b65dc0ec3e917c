// A dense group with tensors that were sparse before. Their residuals are added to their next dense
// gradient, so that a change of route loses nothing. From the first commit on it is an ordinary
// dense group.
#pragma once

#include <memory>
#include <vector>

#include "base/buffer.h"
#include "client/exchange/dense_exchange.h"
#include "sparse/sparse_tensor.h"

namespace ringwood {

class CarryExchange : public Exchange {
 public:
  // `tensors` and `states` in the group's order; a state is null if there is no residual. States
  // are read until the first Apply of a round in which the group does not rest, after which the
  // owner drops them. Velocities are not carried.
  CarryExchange(const Place& place, uint32_t group, const Group& spec,
                std::vector<const Tensor*> tensors, std::vector<const SparseTensor*> states,
                const DenseExchange::Reaches& reaches = {});

  void BeginRound(uint64_t round) override {
    rests_ = !tensors_.front()->HasTurn(round);
    exchange_->BeginRound(round);
  }
  void Pack(float weight, std::function<void(Status)> packed) override;
  void TellWhatIsReached(Reached reached) override {
    exchange_->TellWhatIsReached(std::move(reached));
  }
  void Start(Transport* transport, uint64_t round, std::function<void(Status)> done) override {
    exchange_->Start(transport, round, std::move(done));
  }
  void Apply(double total_weight) override;
  void Abort() override { exchange_->Abort(); }
  uint64_t digest() const override { return exchange_->digest(); }
  uint64_t sent_bytes() const override { return exchange_->sent_bytes(); }
  bool non_finite() const override { return exchange_->non_finite(); }
  std::optional<TensorSum> sum(size_t tensor) const override { return exchange_->sum(tensor); }
  bool keeps_error() const override { return exchange_->keeps_error(); }
  StatusOr<std::span<const float>> error(size_t tensor) const override {
    return exchange_->error(tensor);
  }
  StatusOr<std::span<const BlockReach>> reach(size_t tensor) const override {
    return exchange_->reach(tensor);
  }

 private:
  bool carries() const { return !owed_.empty(); }

  const Place& place_;  // the connection's
  const uint32_t group_;
  const Group spec_;
  const std::vector<const Tensor*> tensors_;
  const std::vector<const SparseTensor*> states_;
  Buffer<float> memory_;      // weight * gradient + residual, while this carries
  std::vector<Tensor> owed_;  // the tensors over memory_
  std::unique_ptr<DenseExchange> exchange_;
  bool rests_ = false;  // this round: what is owed stays
};

}  // namespace ringwood
