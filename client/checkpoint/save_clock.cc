#include "client/checkpoint/save_clock.h"

#include <algorithm>
#include <cmath>

namespace ringwood {

// A day without a failure was there before we began to count: a first failure is no rate yet.
double SaveClock::FailureSeconds(TimePoint now) const {
  return (kFailureSeconds + ToSeconds(now - start_)) / (1 + failures_);
}

void SaveClock::Stopped(TimePoint begun, Duration stop) {
  last_ = begun;
  stop_ = std::max(stop, before_);
  before_ = stop;
}

Duration SaveClock::Interval(TimePoint now, bool wanted) const {
  if (!stop_) return Seconds(wanted ? kWantedSeconds : kFirstSeconds);
  const double stop = ToSeconds(*stop_);
  const double best = std::sqrt(2 * FailureSeconds(now) * stop);
  return std::max(
      {Seconds(wanted ? std::min(best, kWantedSeconds) : best), Seconds(stop / kBudget), took_});
}

}  // namespace ringwood
