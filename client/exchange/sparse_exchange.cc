#include "client/exchange/sparse_exchange.h"

#include <algorithm>

#include "client/exchange/clip.h"

namespace ringwood {

SparseExchange::SparseExchange(Climb climb, std::vector<const Tensor*> tensors,
                               std::vector<SparseTensor*> states)
    : all_reduce_(std::move(climb)), tensors_(std::move(tensors)), states_(std::move(states)) {}

void SparseExchange::Pack(float weight, std::function<void(Status)> packed) {
  non_finite_ = false;
  all_reduce_.Clear();
  for (size_t t = 0; t < tensors_.size(); ++t) {
    std::span<const float> gradient = tensors_[t]->gradient();
    if (rests_) {
      all_reduce_.Add(gradient.size(), {}, {});
      continue;
    }
    if (weight == 0) {  // what the array holds has no meaning then: it may be NaN
      if (zeros_.size() < gradient.size()) zeros_ = Buffer<float>(gradient.size());
      gradient = zeros_.span().first(gradient.size());
    }
    const float clipped = ClippedWeight(gradient, weight, tensors_[t]->norm_limit);
    non_finite_ |= states_[t]->Accumulate(gradient, clipped) != 0;
    const Entries& top_k = states_[t]->picks();
    all_reduce_.Add(gradient.size(), top_k.index, top_k.value);
  }
  all_reduce_.Round([this](size_t t, std::span<const float> sent) {
    if (!rests_) states_[t]->SetSent(sent);
  });
  packed_ = true;
  packed(OkStatus());
}

std::optional<TensorSum> SparseExchange::sum(size_t tensor) const {
  const Entries& result = all_reduce_.result();
  uint64_t first = 0;
  for (size_t t = 0; t < tensor; ++t) first += tensors_[t]->spec.elements;
  const uint64_t end = first + tensors_[tensor]->spec.elements;
  TensorSum sum;
  sum.sparse.emplace();
  const auto from = std::lower_bound(result.index.begin(), result.index.end(), first);
  for (size_t i = from - result.index.begin(); i < result.size() && result.index[i] < end; ++i) {
    sum.sparse->push_back(static_cast<uint32_t>(result.index[i] - first), result.value[i]);
  }
  return sum;
}

void SparseExchange::Scatter(size_t tensor, uint64_t first, size_t* at, double total_weight) {
  const Entries& result = all_reduce_.result();
  const std::span<float> out = tensors_[tensor]->gradient();
  std::fill(out.begin(), out.end(), 0.0f);
  for (; *at < result.size() && result.index[*at] < first + out.size(); ++*at) {
    const double average = total_weight == 0 ? 0 : result.value[*at] / total_weight;
    out[result.index[*at] - first] = static_cast<float>(average);
  }
}

void SparseExchange::Apply(double total_weight) {
  uint64_t first = 0;
  size_t at = 0;  // in the result
  for (size_t t = 0; t < tensors_.size(); ++t) {
    Scatter(t, first, &at, total_weight);
    if (!rests_) states_[t]->Commit(all_reduce_.accepted(t));
    first += tensors_[t]->spec.elements;
  }
  packed_ = false;
}

void SparseExchange::Abort() {
  if (!packed_) return;
  for (SparseTensor* state : states_) state->Abort();
  packed_ = false;
}

}  // namespace ringwood
