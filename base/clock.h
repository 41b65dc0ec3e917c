// Time as values. Monotonic only: nothing in Ringwood's safety depends on a wall clock.
#pragma once

#include <algorithm>
#include <chrono>

namespace ringwood {

using Clock = std::chrono::steady_clock;
using TimePoint = Clock::time_point;
using Duration = Clock::duration;

inline TimePoint Now() { return Clock::now(); }
// At most a century, which NaN counts as, too: it can be added to any time of the clock.
inline Duration Seconds(double seconds) {
  constexpr double kCentury = 100 * 365.25 * 86'400;
  const double some = seconds < kCentury ? std::max(seconds, -kCentury) : kCentury;
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(some));
}
inline double ToSeconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace ringwood
