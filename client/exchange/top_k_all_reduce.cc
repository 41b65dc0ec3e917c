#include "client/exchange/top_k_all_reduce.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/digest.h"

namespace ringwood {
namespace {

uint64_t DigestOf(const Entries& entries) {
  return Combine(Digest(std::as_bytes(std::span(entries.index))),
                 Digest(std::as_bytes(std::span(entries.value))));
}

}  // namespace

void TopKAllReduce::Clear() {
  sent_.clear();
  first_entry_.resize(1);
  elements_ = 0;
  finite_ = true;
}

void TopKAllReduce::Add(uint64_t elements, std::span<const uint32_t> index,
                        std::span<const float> value) {
  for (const uint32_t i : index) sent_.index.push_back(static_cast<uint32_t>(elements_) + i);
  sent_.value.insert(sent_.value.end(), value.begin(), value.end());
  first_entry_.push_back(sent_.size());
  elements_ += elements;
}

void TopKAllReduce::Round(const std::function<void(size_t, std::span<const float>)>& sent) {
  climb_.Round(&sent_);
  const std::span<const float> values = sent_.value;
  for (size_t t = 0; t + 1 < first_entry_.size(); ++t) {
    sent(t, values.subspan(first_entry_[t], first_entry_[t + 1] - first_entry_[t]));
  }
}

void TopKAllReduce::Start(Transport* transport, uint64_t round, std::function<void(Status)> done) {
  climb_.Start(
      transport, round, sent_,
      [this, done = std::move(done)](StatusOr<Descent> descent) {
        if (descent.ok()) {
          RW_CHECK(descent->accepted.size() == sent_.size());
          answer_ = *std::move(descent);
          digest_ = DigestOf(answer_.result);
          finite_ = std::all_of(answer_.result.value.begin(), answer_.result.value.end(),
                                [](float value) { return std::isfinite(value); });
        }
        done(descent.status());
      },
      std::move(answer_));
}

}  // namespace ringwood
