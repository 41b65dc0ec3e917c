#include "server/coordinator/patience/stall_watch.h"

#include <algorithm>
#include <vector>

namespace ringwood {

void StallWatch::Start(TimePoint now) {
  moved_ = committed_ = now;
  any_commit_ = false;
  count_ = 0;
  next_ = Duration::zero();
}

void StallWatch::Moved(TimePoint now) {
  moved_ = now;
  next_ = Duration::zero();
}

void StallWatch::Committed(TimePoint now) {
  if (any_commit_) steps_[count_++ % kRemembered] = now - committed_;
  any_commit_ = true;
  committed_ = now;
  Moved(now);
}

void StallWatch::Forgive(Duration gap) {
  moved_ += gap;
  committed_ += gap;
}

std::optional<Duration> StallWatch::MedianStep() const {
  if (count_ == 0) return std::nullopt;
  std::vector<Duration> known(steps_.begin(), steps_.begin() + std::min(count_, kRemembered));
  std::nth_element(known.begin(), known.begin() + known.size() / 2, known.end());
  return known[known.size() / 2];
}

std::optional<Duration> StallWatch::Due(bool waits, TimePoint now) {
  Duration limit = next_;
  if (limit == Duration::zero()) {
    const std::optional<Duration> median = MedianStep();
    const Duration least = waits ? std::min(least_, Seconds(kWaitSeconds)) : least_;
    limit = median ? std::max(least, Seconds(kSteps * ToSeconds(*median))) : first_;
  }
  const Duration still = Still(now);
  if (still <= limit) return std::nullopt;
  next_ = 2 * still;
  return still;
}

}  // namespace ringwood
