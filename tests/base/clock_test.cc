#include "base/clock.h"

#include <gtest/gtest.h>

#include <limits>

namespace ringwood {
namespace {

TEST(Clock, SecondsThatNoDurationHoldsAreACentury) {
  const double infinite = std::numeric_limits<double>::infinity();
  for (const double seconds : {1e10, 1e300, infinite, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_GT(Now() + Seconds(seconds), Now() + std::chrono::hours(24 * 365 * 99)) << seconds;
  }
  for (const double seconds : {-1e10, -1e300, -infinite}) {
    EXPECT_LT(Now() + Seconds(seconds), Now() - std::chrono::hours(24 * 365 * 99)) << seconds;
  }
}

TEST(Clock, OtherSecondsStayWhatTheyAre) {
  for (const double seconds : {0.0, -0.25, 0.125, 86'400.0, 1e9}) {
    EXPECT_EQ(ToSeconds(Seconds(seconds)), seconds);
  }
}

}  // namespace
}  // namespace ringwood
