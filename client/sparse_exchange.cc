#include "client/sparse_exchange.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/digest.h"
#include "client/clip.h"

namespace ringwood {
namespace {

uint64_t DigestOf(const Entries& entries) {
  return Combine(Digest(std::as_bytes(std::span(entries.index))),
                 Digest(std::as_bytes(std::span(entries.value))));
}

}  // namespace

SparseExchange::SparseExchange(Climb climb, std::vector<const Tensor*> tensors,
                               std::vector<SparseTensor*> states)
    : climb_(std::move(climb)), tensors_(std::move(tensors)), states_(std::move(states)) {}

// A coarse codec rounds: what is sent must be what the residuals give away.
void SparseExchange::Round() {
  climb_.Round(&up_);
  size_t first = 0;
  for (SparseTensor* state : states_) {
    const size_t picks = state->picks().size();
    state->SetSent(std::span<const float>(up_.value).subspan(first, picks));
    first += picks;
  }
}

void SparseExchange::Pack(float weight) {
  non_finite_ = false;
  up_.index.clear();
  up_.value.clear();
  uint64_t first = 0;
  for (size_t t = 0; t < tensors_.size(); ++t) {
    std::span<const float> gradient = tensors_[t]->gradient();
    if (weight == 0) {  // what the array holds has no meaning then: it may be NaN
      if (zeros_.size() < gradient.size()) zeros_ = Buffer<float>(gradient.size());
      gradient = zeros_.span().first(gradient.size());
    }
    const float clipped = ClippedWeight(gradient, weight, tensors_[t]->norm_limit);
    non_finite_ |= states_[t]->Accumulate(gradient, clipped) != 0;
    const Entries& picks = states_[t]->picks();
    for (uint32_t index : picks.index) up_.index.push_back(static_cast<uint32_t>(first) + index);
    up_.value.insert(up_.value.end(), picks.value.begin(), picks.value.end());
    first += gradient.size();
  }
  Round();
  packed_ = true;
}

void SparseExchange::Start(Transport* transport, uint64_t round, std::function<void(Status)> done) {
  climb_.Start(
      transport, round, up_,
      [this, done = std::move(done)](StatusOr<Descent> descent) {
        if (descent.ok()) {
          RW_CHECK(descent->counted.size() == up_.size());
          descent_ = *std::move(descent);
          const Entries& result = descent_.result;
          digest_ = DigestOf(result);
          non_finite_ |= !std::all_of(result.value.begin(), result.value.end(),
                                      [](float value) { return std::isfinite(value); });
        }
        done(descent.status());
      },
      std::move(descent_));
}

void SparseExchange::Scatter(size_t tensor, uint64_t first, size_t* at, double total_weight) {
  const std::span<float> out = tensors_[tensor]->gradient();
  std::fill(out.begin(), out.end(), 0.0f);
  for (; *at < descent_.result.size() && descent_.result.index[*at] < first + out.size(); ++*at) {
    const double average = total_weight == 0 ? 0 : descent_.result.value[*at] / total_weight;
    out[descent_.result.index[*at] - first] = static_cast<float>(average);
  }
}

void SparseExchange::Apply(double total_weight) {
  uint64_t first = 0;
  size_t at = 0;    // in the result
  size_t pick = 0;  // in the picks of all tensors
  for (size_t t = 0; t < tensors_.size(); ++t) {
    Scatter(t, first, &at, total_weight);
    const size_t picks = states_[t]->picks().size();
    states_[t]->Commit(std::span<const uint8_t>(descent_.counted).subspan(pick, picks));
    pick += picks;
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
