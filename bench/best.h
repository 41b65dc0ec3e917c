#pragma once

#include <algorithm>
#include <limits>

#include "base/clock.h"

namespace ringwood {

// The seconds of the fastest of `repeats` passes. `prepare` goes before each and is not timed.
template <typename Pass, typename Prepare>
double Best(int repeats, const Pass& pass, const Prepare& prepare) {
  double best = std::numeric_limits<double>::infinity();
  for (int repeat = 0; repeat < repeats; ++repeat) {
    prepare();
    const TimePoint start = Now();
    pass();
    best = std::min(best, ToSeconds(Now() - start));
  }
  return best;
}

template <typename Pass>
double Best(int repeats, const Pass& pass) {
  return Best(repeats, pass, [] {});
}

}  // namespace ringwood
