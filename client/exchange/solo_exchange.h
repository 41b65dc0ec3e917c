// A dense group in a world of one: the average of one gradient is that gradient, so nothing is
// packed, sent or written, and there is no buffer.
#pragma once

#include <algorithm>
#include <vector>

#include "base/digest.h"
#include "client/exchange/exchange.h"
#include "client/exchange/scale.h"
#include "client/exchange/tensor.h"

namespace ringwood {

class SoloExchange : public Exchange {
 public:
  // `tensors` in the group's order; they outlive this.
  explicit SoloExchange(std::vector<const Tensor*> tensors) : tensors_(std::move(tensors)) {}

  void BeginRound(uint64_t round) override { rests_ = !tensors_.front()->HasTurn(round); }
  void Pack(float weight, std::function<void(Status)> packed) override {
    digest_ = 0;
    non_finite_ = false;
    for (const Tensor* tensor : tensors_) {
      if (weight == 0 || rests_) continue;  // the array's content is meaningless then
      non_finite_ |= Overflows(tensor->gradient(), weight);
      digest_ = Combine(digest_, Digest(std::as_bytes(tensor->gradient())));
    }
    packed(OkStatus());
  }
  void Start(Transport*, uint64_t, std::function<void(Status)> done) override { done(OkStatus()); }
  void Apply(double total_weight) override {
    if (total_weight != 0 && !rests_) return;
    for (const Tensor* tensor : tensors_) std::ranges::fill(tensor->gradient(), 0.0f);
  }
  void Abort() override {}
  uint64_t digest() const override { return digest_; }
  uint64_t sent_bytes() const override { return 0; }
  bool non_finite() const override { return non_finite_; }
  std::optional<TensorSum> sum(size_t tensor) const override {
    if (rests_) return TensorSum{.dense = {}, .sparse = Entries()};
    return TensorSum{tensors_[tensor]->gradient(), true};
  }

 private:
  const std::vector<const Tensor*> tensors_;
  uint64_t digest_ = 0;
  bool non_finite_ = false;
  bool rests_ = false;  // this round
};

}  // namespace ringwood
