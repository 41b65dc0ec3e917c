#include "transport/patience.h"

#include <algorithm>

namespace ringwood {

void Patience::Arrived(TimePoint now) {
  if (last_) {
    const Duration gap = now - *last_;
    gap_ = gap_ ? *gap_ + (gap - *gap_) / 8 : gap;
  }
  last_ = now;
}

Duration Patience::Nap() const {
  if (!last_ || !gap_ || *gap_ < kLeastGap) return Duration::zero();
  return std::min(*gap_ / 2, kLongestNap);
}

}  // namespace ringwood
