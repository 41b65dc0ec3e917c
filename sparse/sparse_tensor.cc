#include "sparse/sparse_tensor.h"

#include <algorithm>

#include "base/check.h"
#include "sparse/accumulate.h"

namespace ringwood {
SparseTensor::SparseTensor(uint64_t elements, const SparseOptions& options)
    : elements_(elements),
      options_(options),
      residual_{Buffer<float>(elements), Buffer<float>(elements)},
      momentum_{Buffer<float>(options.momentum != 0 ? elements : 0),
                Buffer<float>(options.momentum != 0 ? elements : 0)},
      topk_(elements, options.k),
      selector_(MakeSelector(options.method, options.chunk_elements)) {}

void SparseTensor::set_k(uint64_t k) {
  RW_CHECK(!pending_);
  topk_ = TopK(elements_, k);
}

uint64_t SparseTensor::Accumulate(std::span<const float> gradient, float weight) {
  RW_CHECK(gradient.size() == elements_);
  topk_.Restart(selector_->Floor());
  const int shadow = 1 - present_;
  ringwood::Accumulate({.elements = elements_,
                        .gradient = gradient.data(),
                        .residual = residual_[present_].data(),
                        .shadow = residual_[shadow].data(),
                        .momentum = momentum_[present_].data(),
                        .momentum_shadow = momentum_[shadow].data(),
                        .weight = weight,
                        .decay = options_.decay,
                        .factor = options_.momentum},
                       &topk_);
  pending_ = true;
  const uint64_t nonfinite = topk_.nonfinite();
  selector_->Select(residual_[shadow].span(), &topk_, &picks_);
  return nonfinite;
}

void SparseTensor::SetSent(std::span<const float> values) {
  RW_CHECK(pending_ && values.size() == picks_.size());
  std::copy(values.begin(), values.end(), picks_.value.begin());
}

void SparseTensor::Commit(std::span<const uint8_t> accepted) {
  RW_CHECK(pending_ && accepted.size() == picks_.size());
  float* shadow = residual_[1 - present_].data();
  float* momentum_shadow = masking_ ? momentum_[1 - present_].data() : nullptr;
  for (size_t j = 0; j < picks_.size(); ++j) {
    if (accepted[j] == 0 || picks_.value[j] == 0) continue;  // 0: a coarse code sent nothing of it
    shadow[picks_.index[j]] -= picks_.value[j];
    if (momentum_shadow != nullptr) momentum_shadow[picks_.index[j]] = 0;
  }
  selector_->Commit();
  present_ = 1 - present_;
  pending_ = false;
}

void SparseTensor::Abort() { pending_ = false; }

}  // namespace ringwood
