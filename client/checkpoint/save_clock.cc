#include "client/checkpoint/save_clock.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace ringwood {

// A day without a failure was there before we began to count: a first failure is no rate yet.
double SaveClock::FailureSeconds(TimePoint now) const {
  return (kFailureSeconds + ToSeconds(now - start_)) / (1 + failures_);
}

void SaveClock::Told(TimePoint now) {
  told_ = now;
  told_since_ = true;
}

bool SaveClock::Due(TimePoint now, bool wanted) const {
  if (wanted && untold_) return now - told_ >= Seconds(kWantedSeconds);
  return now - last_ >= Interval(now, wanted);
}

void SaveClock::Stopped(TimePoint begun, Duration stop) {
  untold_ = !std::exchange(told_since_, false);
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
