#include "client/exchange/carry_exchange.h"

#include <algorithm>

#include "client/exchange/gradient.h"

namespace ringwood {

CarryExchange::CarryExchange(const Place& place, uint32_t group, const Group& spec,
                             std::vector<const Tensor*> tensors,
                             std::vector<const SparseTensor*> states,
                             const DenseExchange::Reaches& reaches)
    : place_(place),
      group_(group),
      spec_(spec),
      tensors_(std::move(tensors)),
      states_(std::move(states)) {
  size_t elements = 0;
  for (const Tensor* tensor : tensors_) elements += tensor->spec.elements;
  memory_ = Buffer<float>(elements);
  size_t at = 0;
  std::vector<const Tensor*> views;
  owed_.reserve(tensors_.size());  // the views point into it
  for (const Tensor* tensor : tensors_) {
    owed_.push_back(*tensor);
    owed_.back().data = memory_.data() + at;
    owed_.back().type = DataType::kFloat32;
    views.push_back(&owed_.back());
    at += tensor->spec.elements;
  }
  exchange_ = std::make_unique<DenseExchange>(place_, group_, spec_, std::move(views), reaches);
}

// The residual is copied into what is sent and stays in its state until the owner drops that, after
// the commit. So an aborted round loses nothing, a round that is packed again sends the same, and
// after the commit Σ(residual + weight * gradient) over the ranks is what was applied.
void CarryExchange::Pack(float weight, std::function<void(Status)> packed) {
  if (!carries() || rests_) return exchange_->Pack(weight, std::move(packed));
  for (size_t t = 0; t < tensors_.size(); ++t) {
    const std::span<float> out = owed_[t].gradient();
    if (weight == 0) {  // the gradient is not read: it may be anything
      std::fill(out.begin(), out.end(), 0.0f);
    } else {
      ReadGradient(*tensors_[t], out);
      for (float& value : out) value *= weight;
    }
    if (states_[t] == nullptr) continue;
    const std::span<const float> residual = states_[t]->residual();
    for (size_t i = 0; i < out.size(); ++i) out[i] += residual[i];
  }
  exchange_->Pack(1, std::move(packed));
}

void CarryExchange::Apply(double total_weight) {
  exchange_->Apply(total_weight);
  if (!carries()) return;
  if (rests_) {  // the exchange has written zeros to its own memory
    for (const Tensor* tensor : tensors_) ClearGradient(*tensor);
    return;
  }
  for (size_t t = 0; t < tensors_.size(); ++t) {
    WriteGradient(*tensors_[t], 0, owed_[t].gradient());
  }
  auto next = std::make_unique<DenseExchange>(place_, group_, spec_, tensors_);
  next->TakeErrors(*exchange_);
  exchange_ = std::move(next);
  owed_.clear();
  memory_ = Buffer<float>();
}

}  // namespace ringwood
