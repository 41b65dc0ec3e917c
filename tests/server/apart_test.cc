#include "server/coordinator/patience/apart.h"

#include <gtest/gtest.h>

namespace ringwood {
namespace {

TimePoint At(double seconds) { return TimePoint() + Seconds(1000 + seconds); }

TEST(Apart, EachSentenceIsTwiceAsLongUpToALimit) {
  Apart apart(Seconds(1));
  EXPECT_EQ(apart.Until(7), TimePoint());
  TimePoint now = At(0);
  for (const double length : {1, 2, 4, 8, 16, 32, 64, 64}) {
    EXPECT_EQ(ToSeconds(apart.Sentence(7, now)), length);
    EXPECT_EQ(apart.Until(7), now + Seconds(length));
    now += Seconds(length);
  }
}

TEST(Apart, WhoServesASentenceGetsNone) {
  Apart apart(Seconds(2));
  apart.Sentence(7, At(0));
  EXPECT_EQ(apart.Sentence(7, At(1)), Duration::zero());
  EXPECT_EQ(apart.Until(7), At(2));
  EXPECT_EQ(ToSeconds(apart.Sentence(8, At(1))), 2) << "another one";
}

TEST(Apart, WhoWasFreedStartsAtOnceAndIsRemembered) {
  Apart apart(Seconds(2));
  apart.Sentence(7, At(0));
  apart.Free(7);
  apart.Free(8);
  EXPECT_EQ(apart.Until(7), TimePoint());
  EXPECT_EQ(ToSeconds(apart.Sentence(7, At(1))), 4);
}

TEST(Apart, ASentenceIsForgottenAfterTenTimesItsLength) {
  Apart apart(Seconds(1));
  apart.Sentence(7, At(0));
  EXPECT_EQ(ToSeconds(apart.Sentence(7, At(10))), 2);  // until 12
  EXPECT_EQ(ToSeconds(apart.Sentence(7, At(12 + 20.5))), 1);
}

}  // namespace
}  // namespace ringwood
