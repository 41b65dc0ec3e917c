// Time as values. Monotonic only: nothing in Ringwood's safety depends on a wall clock.
#pragma once

#include <chrono>

namespace ringwood {

using Clock = std::chrono::steady_clock;
using TimePoint = Clock::time_point;
using Duration = Clock::duration;

inline TimePoint Now() { return Clock::now(); }
inline Duration Seconds(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}
inline double ToSeconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace ringwood
