#include "client/checkpoint/save_clock.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/base/at.h"

namespace ringwood {
namespace {

double IntervalOf(const SaveClock& clock, double now) { return ToSeconds(clock.Interval(At(now))); }

TEST(SaveClock, TheFirstCheckpointShowsWhatOneCosts) {
  SaveClock clock(At(0), 0);
  EXPECT_FALSE(clock.Due(At(SaveClock::kFirstSeconds - 0.1)));
  EXPECT_TRUE(clock.Due(At(SaveClock::kFirstSeconds)));
  clock.Stopped(At(11), Seconds(0.5));
  EXPECT_FALSE(clock.Due(At(12)));
  const double day = SaveClock::kFailureSeconds + 12;
  EXPECT_NEAR(IntervalOf(clock, 12), std::sqrt(2 * day * 0.5), 1e-6);
  EXPECT_TRUE(clock.Due(At(11 + 300)));
}

TEST(SaveClock, FailuresBringCheckpointsNearer) {
  SaveClock calm(At(0), 0), stormy(At(0), 0);
  for (SaveClock* clock : {&calm, &stormy}) clock->Stopped(At(1), Seconds(0.1));
  for (int i = 0; i < 99; ++i) stormy.Failed();
  EXPECT_NEAR(IntervalOf(calm, 1) / IntervalOf(stormy, 1), 10, 1e-6);
}

// However often ranks fail and however slow the disk is.
TEST(SaveClock, StopsTakeNoMoreThanTheirShareAndCheckpointsDoNotMeet) {
  for (const int failures : {0, 10, 100'000}) {
    for (const double stop : {0.001, 0.1, 30.0}) {
      for (const double took : {0.01, 400.0}) {
        SaveClock clock(At(0), failures);
        clock.Stopped(At(5), Seconds(stop));
        clock.Completed(Seconds(took));
        const double interval = IntervalOf(clock, 5);
        EXPECT_LE(stop / interval, SaveClock::kBudget * (1 + 1e-9));
        EXPECT_GE(interval, took);
      }
    }
  }
}

TEST(SaveClock, AReaderThatWaitsGetsOneSoonButWithinTheBudget) {
  SaveClock clock(At(0), 0);
  EXPECT_FALSE(clock.Due(At(SaveClock::kWantedSeconds - 0.1), true));
  EXPECT_TRUE(clock.Due(At(SaveClock::kWantedSeconds), true));
  EXPECT_FALSE(clock.Due(At(SaveClock::kWantedSeconds)));
  for (const double stop : {0.0001, 0.01, 0.1, 30.0}) {
    for (const double took : {0.01, 400.0}) {
      SaveClock saved(At(0), 0);
      saved.Stopped(At(5), Seconds(stop));
      saved.Completed(Seconds(took));
      const double wanted = ToSeconds(saved.Interval(At(5), true));
      EXPECT_LE(stop / wanted, SaveClock::kBudget * (1 + 1e-9));
      EXPECT_GE(wanted, took);
      EXPECT_LE(wanted, IntervalOf(saved, 5)) << "never later than without a reader";
    }
  }
  clock.Stopped(At(5), Seconds(0.01));
  EXPECT_NEAR(ToSeconds(clock.Interval(At(5), true)), SaveClock::kWantedSeconds, 1e-6);
}

// Every second, by an interval of its own, which takes far more than the budget.
TEST(SaveClock, AReaderOfATrainerThatSavesUntoldIsAnsweredAllTheSame) {
  SaveClock clock(At(0), 0);
  for (int second = 1; second <= 3; ++second) clock.Stopped(At(second), Seconds(0.5));
  EXPECT_TRUE(clock.Due(At(3.5), true));
  EXPECT_FALSE(clock.Due(At(3.5)));
  clock.Told(At(3.5));
  EXPECT_FALSE(clock.Due(At(4.5), true)) << "not more often than of others";
  // It was told, and saved: from here on what it costs counts.
  clock.Stopped(At(5), Seconds(0.5));
  EXPECT_FALSE(clock.Due(At(29), true));
  EXPECT_TRUE(clock.Due(At(30.1), true));
}

TEST(SaveClock, OneQuickCheckpointAfterASlowOneProvesNothing) {
  SaveClock clock(At(0), 0);
  clock.Stopped(At(10), Seconds(8));
  const double slow = IntervalOf(clock, 10);
  clock.Stopped(At(20), Seconds(0.01));
  EXPECT_NEAR(IntervalOf(clock, 10), slow, 1e-6);
  clock.Stopped(At(30), Seconds(0.01));
  EXPECT_LT(IntervalOf(clock, 30), slow / 10);
}

}  // namespace
}  // namespace ringwood
