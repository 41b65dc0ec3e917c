#include "transport/poll_pacer.h"

#include <algorithm>

namespace ringwood {

void PollPacer::Arrived(TimePoint now) {
  if (last_) {
    const Duration gap = now - *last_;
    gap_ = gap_ ? *gap_ + (gap - *gap_) / 8 : gap;
  }
  last_ = now;
}

Duration PollPacer::Nap() const {
  if (!last_ || !gap_ || *gap_ < kLeastGap) return Duration::zero();
  return std::min(*gap_ / 2, kLongestNap);
}

}  // namespace ringwood
