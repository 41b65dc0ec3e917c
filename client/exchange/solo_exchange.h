// A dense group in a world of one: the average of one gradient is that gradient, so nothing is
// packed, sent or written, and there is no buffer.
#pragma once

#include <vector>

#include "base/buffer.h"
#include "base/digest.h"
#include "client/exchange/exchange.h"
#include "client/exchange/gradient.h"
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
      non_finite_ |= tensor->type == DataType::kBFloat16 ? Overflows(tensor->bfloat16(), weight)
                                                         : Overflows(tensor->gradient(), weight);
      digest_ = Combine(digest_, Digest(tensor->bytes()));
    }
    packed(OkStatus());
  }
  void TellWhatIsReached(Reached reached) override { looked_at_ = reached != nullptr; }
  void Start(Transport*, uint64_t, std::function<void(Status)> done) override {
    if (looked_at_) Widen();
    done(OkStatus());
  }
  void Apply(double total_weight) override {
    if (total_weight != 0 && !rests_) return;
    for (const Tensor* tensor : tensors_) ClearGradient(*tensor);
  }
  void Abort() override {}
  uint64_t digest() const override { return digest_; }
  uint64_t sent_bytes() const override { return 0; }
  bool non_finite() const override { return non_finite_; }
  std::optional<TensorSum> sum(size_t tensor) const override {
    if (rests_) return TensorSum{.dense = {}, .sparse = Entries()};
    const Tensor& one = *tensors_[tensor];
    return TensorSum{one.type == DataType::kFloat32 ? one.gradient() : wide_[tensor].span(), true};
  }

 private:
  void Widen() {
    wide_.resize(tensors_.size());
    for (size_t t = 0; t < tensors_.size(); ++t) {
      if (tensors_[t]->type == DataType::kFloat32) continue;
      if (wide_[t].size() == 0) wide_[t] = Buffer<float>(tensors_[t]->spec.elements);
      ReadGradient(*tensors_[t], wide_[t].span());
    }
  }

  const std::vector<const Tensor*> tensors_;
  uint64_t digest_ = 0;
  bool non_finite_ = false;
  bool rests_ = false;  // this round
  bool looked_at_ = false;
  std::vector<Buffer<float>> wide_;  // by tensor, for those that look at sums: what is not float32
};

}  // namespace ringwood
