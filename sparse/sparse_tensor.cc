#include "sparse/sparse_tensor.h"

#include <algorithm>

#include "base/check.h"
#include "sparse/accumulate.h"
#include "sparse/key.h"

namespace ringwood {
SparseTensor::SparseTensor(uint64_t elements, const SparseOptions& options)
    : elements_(elements),
      options_(options),
      residual_{Buffer<float>(elements), Buffer<float>(elements)},
      momentum_{Buffer<float>(options.momentum != 0 ? elements : 0),
                Buffer<float>(options.momentum != 0 ? elements : 0)},
      topk_(elements, options.k) {}

void SparseTensor::set_k(uint64_t k) {
  RW_CHECK(!pending_);
  topk_ = TopK(elements_, k);
}

uint64_t SparseTensor::Accumulate(std::span<const float> gradient, float weight) {
  RW_CHECK(gradient.size() == elements_);
  const bool by_chunk = options_.chunk_elements != 0;
  // By chunk, the first pass only updates: no finite value reaches the floor.
  const uint32_t guess =
      by_chunk ? kFirstNonFiniteKey : std::max(KeyOf(guess_ * FromKey(last_key_)), 1u);
  topk_.Restart(guess);
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
  if (by_chunk) {
    const uint64_t nonfinite = topk_.nonfinite();
    SelectByChunk();
    return nonfinite;
  }
  const bool missed = topk_.size() < topk_.k() && guess > 1;
  Tune(topk_.size(), missed);
  if (missed) {  // once more over the shadow, from the start
    topk_.Restart(1);
    Scan(residual_[shadow].span(), &topk_);
  }
  const uint64_t nonfinite = topk_.nonfinite();
  last_key_ = topk_.Take(&picks_);
  return nonfinite;
}

void SparseTensor::SelectByChunk() {
  const std::span<const float> shadow = residual_[1 - present_].span();
  const uint64_t size = options_.chunk_elements;
  const uint64_t chunks = (elements_ + size - 1) / size;
  picks_.clear();
  Entries kept;
  for (uint64_t chunk = 0; chunk < chunks; ++chunk) {
    const uint64_t begin = chunk * size;
    const std::span<const float> part = shadow.subspan(begin, std::min(size, elements_ - begin));
    const uint64_t share = k() * (chunk + 1) / chunks - k() * chunk / chunks;
    if (share == 0) continue;
    TopK topk(part.size(), share);
    topk.Restart(1);
    Scan(part, &topk);
    topk.Take(&kept);
    for (size_t j = 0; j < kept.size(); ++j) {
      picks_.push_back(static_cast<uint32_t>(begin + kept.index[j]), kept.value[j]);
    }
  }
}

// Error feedback piles values up just below the threshold, so how many candidates a share of it
// lets in differs between tensors. Aims at 1.1 to 1.4 k; a miss costs another pass, so it moves
// back further.
void SparseTensor::Tune(uint64_t candidates, bool missed) {
  const float gap = 1 - guess_;
  if (missed) {
    guess_ = std::max(1 - 2 * gap, 0.7f);
  } else if (candidates > topk_.k() + topk_.k() * 2 / 5) {
    guess_ = 1 - std::max(0.8f * gap, 0.005f);
  } else if (candidates < topk_.k() + topk_.k() / 10) {
    guess_ = 1 - std::min(1.2f * gap, 0.3f);
  }
}

void SparseTensor::SetSent(std::span<const float> values) {
  RW_CHECK(pending_ && values.size() == picks_.size());
  std::copy(values.begin(), values.end(), picks_.value.begin());
}

void SparseTensor::Commit(std::span<const uint8_t> counted) {
  RW_CHECK(pending_ && counted.size() == picks_.size());
  float* shadow = residual_[1 - present_].data();
  float* momentum_shadow = momentum_[1 - present_].data();
  for (size_t j = 0; j < picks_.size(); ++j) {
    if (counted[j] == 0) continue;
    shadow[picks_.index[j]] -= picks_.value[j];
    if (momentum_shadow != nullptr) momentum_shadow[picks_.index[j]] = 0;
  }
  present_ = 1 - present_;
  pending_ = false;
}

void SparseTensor::Abort() { pending_ = false; }

double SparseTensor::ResidualSquaredNorm() const {
  double sum = 0;
  for (float value : residual()) sum += static_cast<double>(value) * value;
  return sum;
}

}  // namespace ringwood
