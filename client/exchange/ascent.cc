#include "client/exchange/ascent.h"

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

void Ascent::Clear() {
  up_.clear();
  first_pick_.resize(1);
  elements_ = 0;
  finite_ = true;
}

void Ascent::Add(uint64_t elements, std::span<const uint32_t> index, std::span<const float> value) {
  for (const uint32_t i : index) up_.index.push_back(static_cast<uint32_t>(elements_) + i);
  up_.value.insert(up_.value.end(), value.begin(), value.end());
  first_pick_.push_back(up_.size());
  elements_ += elements;
}

void Ascent::Round(const std::function<void(size_t, std::span<const float>)>& sent) {
  climb_.Round(&up_);
  const std::span<const float> values = up_.value;
  for (size_t t = 0; t + 1 < first_pick_.size(); ++t) {
    sent(t, values.subspan(first_pick_[t], first_pick_[t + 1] - first_pick_[t]));
  }
}

void Ascent::Start(Transport* transport, uint64_t round, std::function<void(Status)> done) {
  climb_.Start(
      transport, round, up_,
      [this, done = std::move(done)](StatusOr<Descent> descent) {
        if (descent.ok()) {
          RW_CHECK(descent->counted.size() == up_.size());
          descent_ = *std::move(descent);
          digest_ = DigestOf(descent_.result);
          finite_ = std::all_of(descent_.result.value.begin(), descent_.result.value.end(),
                                [](float value) { return std::isfinite(value); });
        }
        done(descent.status());
      },
      std::move(descent_));
}

}  // namespace ringwood
