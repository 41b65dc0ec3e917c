#include "launch/supervision/host_health.h"

#include <gtest/gtest.h>

#include "tests/launch/story.h"

namespace ringwood {
namespace {

TEST(HostHealth, AHostWhoseProcessesFailAgainAndAgainIsSetAside) {
  HostHealth health({{"h1", "h2"}, 3, 30});
  EXPECT_FALSE(health.Failed("h1", At(0)));
  EXPECT_FALSE(health.Failed("h1", At(5)));
  EXPECT_TRUE(health.Failed("h1", At(10)));
  EXPECT_EQ(health.until("h1"), At(40));
  EXPECT_LE(health.until("h2"), At(0));
  EXPECT_FALSE(health.Failed("h1", At(41))) << "it begins anew";
}

TEST(HostHealth, FailuresLongAgoDoNotCount) {
  HostHealth health({{"h1", "h2"}, 2, 30});
  EXPECT_FALSE(health.Failed("h1", At(0)));
  EXPECT_FALSE(health.Failed("h1", At(61)));
  EXPECT_TRUE(health.Failed("h1", At(100)));
}

TEST(HostHealth, WhatFailsAtOnceCountsOnce) {
  HostHealth health({{"h1", "h2"}, 2, 30});
  for (double at : {0.0, 0.1, 0.2, 0.9}) EXPECT_FALSE(health.Failed("h1", At(at)));
  EXPECT_TRUE(health.Failed("h1", At(2)));
}

TEST(HostHealth, TheLastHostStays) {
  HostHealth health({{"h1", "h2"}, 1, 30});
  EXPECT_TRUE(health.Failed("h1", At(0)));
  EXPECT_FALSE(health.Failed("h2", At(1)));
  EXPECT_TRUE(health.Failed("h2", At(31))) << "the other one is back";
  HostHealth alone({{"h1", "h1"}, 1, 30});
  EXPECT_FALSE(alone.Failed("h1", At(0)));
}

TEST(HostHealth, NoHostIsSetAsideWhereNoneShallBe) {
  HostHealth health({{"h1", "h2"}, 0, 30});
  for (int at = 0; at < 100; ++at) EXPECT_FALSE(health.Failed("h1", At(2 * at)));
}

TEST(HostHealth, AHostThatIsAwayIsTriedAgainAfterLongerAndLongerPauses) {
  HostHealth health({{"h1"}, 5, 6});
  double now = 0;
  for (double pause : {1, 2, 4, 6, 6}) {
    health.Lost("h1", At(now), At(now));
    EXPECT_EQ(health.until("h1"), At(now + pause));
    now += pause;
  }
  now += 11;  // it was there so long
  health.Lost("h1", At(now), At(now));
  EXPECT_EQ(health.until("h1"), At(now + 1));
}

TEST(HostHealth, ALostHostIsOneLossHoweverManyProcessesItHad) {
  HostHealth health({{"h1"}, 5, 60});
  for (int rank = 0; rank < 8; ++rank) health.Lost("h1", At(0), At(0));
  EXPECT_EQ(health.until("h1"), At(1));
}

TEST(HostHealth, NothingStartsWhereTheJobMayStillRun) {
  HostHealth health({{"h1"}, 5, 60});
  health.Lost("h1", At(0), At(0));
  health.Lost("h1", At(20), At(0));
  EXPECT_EQ(health.until("h1"), At(20));
}

}  // namespace
}  // namespace ringwood
