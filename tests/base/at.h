#pragma once

#include "base/clock.h"

namespace ringwood {

// An instant of a scripted test. 0 is some time after the clock's own zero, which may stand for
// "never".
inline TimePoint At(double seconds) { return TimePoint() + Seconds(1000 + seconds); }

}  // namespace ringwood
