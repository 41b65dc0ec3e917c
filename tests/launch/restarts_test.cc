#include "launch/supervision/restarts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/launch/story.h"

namespace ringwood {
namespace {

using Cause = Restarts::Cause;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Member 0 is the coordinator on h1; 1 and 2 are ranks on h1, 3 on h2.
RestartOptions Options() { return {1, {"h1", "h1", "h1", "h2"}, 4, 3, 60}; }

Restarts Begun() {
  Restarts restarts(Options());
  for (int member = 0; member < 4; ++member) restarts.Started(member, At(0));
  return restarts;
}

TEST(Restarts, TheFirstComesAtOnceAndTheNextOnesLater) {
  Restarts restarts = Begun();
  double now = 0;
  for (double pause : {0, 1, 2, 4}) {
    const Revival revival = restarts.Failed(3, Cause::kSuffered, At(now));
    EXPECT_TRUE(revival.again);
    EXPECT_EQ(revival.pause_seconds, pause);
    EXPECT_EQ(restarts.deadline(), At(now + pause));
    EXPECT_THAT(restarts.TakeDue(At(now + pause - 0.1)), IsEmpty());
    EXPECT_THAT(restarts.TakeDue(At(now + pause)), ElementsAre(3));
    EXPECT_THAT(restarts.TakeDue(At(now + pause)), IsEmpty());
    now += pause + 0.5;
  }
  const Revival last = restarts.Failed(3, Cause::kSuffered, At(now));
  EXPECT_FALSE(last.again);
  EXPECT_EQ(last.count, 4);
  EXPECT_EQ(restarts.deadline(), TimePoint::max());
  EXPECT_EQ(restarts.total(3), 4);
}

TEST(Restarts, AProcessThatLivedForAWhileIsBackAtOnce) {
  Restarts restarts = Begun();
  restarts.Failed(1, Cause::kAccident, At(5));
  ASSERT_THAT(restarts.TakeDue(At(5)), ElementsAre(1));
  EXPECT_EQ(restarts.Failed(1, Cause::kAccident, At(16)).pause_seconds, 0);
}

TEST(Restarts, OnlyThoseOfTheLastTenMinutesCount) {
  Restarts restarts = Begun();
  for (int i = 0; i < 40; ++i) {
    const Revival revival = restarts.Failed(1, Cause::kSuffered, At(200 * i));
    EXPECT_TRUE(revival.again) << i;
    EXPECT_LE(revival.count, 4);
    restarts.TakeDue(At(200 * i));
  }
}

TEST(Restarts, AProgramsOwnFailureWaitsForTheOthers) {
  Restarts restarts = Begun();
  EXPECT_EQ(restarts.Failed(1, Cause::kOwn, At(0)).pause_seconds, 1);
  EXPECT_EQ(restarts.RanksWaiting(false), 1);
  EXPECT_EQ(restarts.RanksWaiting(true), 0);
  restarts.Failed(3, Cause::kAccident, At(0));
  EXPECT_EQ(restarts.RanksWaiting(true), 1);
}

TEST(Restarts, NothingStartsOnAHostThatIsSetAside) {
  Restarts restarts = Begun();
  restarts.Failed(1, Cause::kAccident, At(0));
  restarts.TakeDue(At(0));
  restarts.Failed(1, Cause::kAccident, At(2));
  restarts.TakeDue(At(3));
  EXPECT_EQ(restarts.Failed(2, Cause::kSuffered, At(4)).pause_seconds, 0)
      << "who suffered from others says nothing about its host";
  const Revival revival = restarts.Failed(1, Cause::kAccident, At(4));
  EXPECT_TRUE(revival.set_aside);
  EXPECT_EQ(revival.pause_seconds, 60);
  EXPECT_EQ(restarts.deadline(), At(64)) << "the one that was due at once has to wait as well";
  EXPECT_THAT(restarts.TakeDue(At(64)), ElementsAre(1, 2));
}

TEST(Restarts, TheCoordinatorIsBackAtOnceEvenWhereItsHostIsSetAside) {
  Restarts restarts = Begun();
  for (double at : {0.0, 2.0, 4.0}) restarts.Failed(1, Cause::kAccident, At(at));
  EXPECT_EQ(restarts.Failed(0, Cause::kAccident, At(5)).pause_seconds, 0);
  EXPECT_THAT(restarts.TakeDue(At(5)), ElementsAre(0));
}

TEST(Restarts, ACoordinatorThatDoesNotStayIsGivenUp) {
  Restarts restarts = Begun();
  double now = 0;
  int count = 0;
  while (restarts.Failed(0, Cause::kAccident, At(now)).again) {
    ASSERT_LT(++count, 100);
    const TimePoint due = restarts.deadline();
    ASSERT_THAT(restarts.TakeDue(due), ElementsAre(0));
    now = ToSeconds(due - At(0)) + 0.1;
  }
  EXPECT_EQ(count, Restarts::kMostOfServer);
}

TEST(Restarts, ALostHostDoesNotCountAgainstTheProcess) {
  Restarts restarts = Begun();
  double now = 0;
  for (int i = 0; i < 20; ++i) {
    const Revival revival = restarts.Lost(3, At(now + 0.5), At(now));
    ASSERT_TRUE(revival.again);
    EXPECT_GE(revival.pause_seconds, 0.5);
    now += revival.pause_seconds;
    ASSERT_THAT(restarts.TakeDue(At(now)), ElementsAre(3));
  }
  EXPECT_EQ(restarts.Failed(3, Cause::kAccident, At(now)).count, 1);
}

TEST(Restarts, ALostCoordinatorIsTriedAfterLongerAndLongerPauses) {
  Restarts restarts = Begun();
  double now = 0;
  for (double pause : {1, 2, 4, 8, 16, 16}) {
    EXPECT_EQ(restarts.Lost(0, At(now), At(now)).pause_seconds, pause);
    now += pause;
    ASSERT_THAT(restarts.TakeDue(At(now)), ElementsAre(0));
  }
}

TEST(Restarts, AHostThatNeverComesBackIsGivenUpAtLast) {
  Restarts restarts = Begun();
  double now = 0;
  int losses = 0;
  for (Revival revival; (revival = restarts.Lost(3, At(now), At(now))).again; ++losses) {
    ASSERT_LT(losses, 1000);
    now += revival.pause_seconds;
    restarts.TakeDue(At(now));
  }
  EXPECT_EQ(losses, Restarts::kMostLosses);
}

TEST(Restarts, NoneAreMadeWhereNoneAreAllowed) {
  RestartOptions options = Options();
  options.most = 0;
  Restarts restarts(options);
  EXPECT_FALSE(restarts.Failed(1, Cause::kAccident, At(0)).again);
  EXPECT_FALSE(restarts.Lost(3, At(0), At(0)).again);
  EXPECT_TRUE(restarts.Failed(0, Cause::kAccident, At(0)).again) << "the coordinator's are its own";
}

}  // namespace
}  // namespace ringwood
