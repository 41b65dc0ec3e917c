// A member whose coordinator dies and comes back, event by event.
#include "proto/attachment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

namespace ringwood {
namespace {

using Act = Attachment::Act;
using ::testing::HasSubstr;

constexpr double kGrace = 30;
const Status kBroken = Unavailable("Socket closed");

class Member : public ::testing::Test {
 protected:
  // A member that is attached.
  explicit Member(double grace = kGrace) : tie_("the coordinator at c:1", Seconds(grace)) {
    tie_.Confirmed();
  }

  TimePoint At(double seconds) const { return begin_ + Seconds(seconds); }
  Act Breaks(double seconds) { return tie_.StreamEnded(kBroken, false, At(seconds)); }
  Act Looks(bool connected, double seconds) { return tie_.Look(connected, At(seconds)); }
  std::string Why() const { return Message(tie_.why()); }

  Attachment tie_;

 private:
  const TimePoint begin_ = Now();
};

class MemberWithoutGrace : public Member {
 protected:
  MemberWithoutGrace() : Member(0) {}
};

TEST_F(MemberWithoutGrace, EndsWithTheFirstLoss) {
  EXPECT_EQ(Breaks(0), Act::kEnd);
  EXPECT_EQ(tie_.why().code(), StatusCode::kUnavailable);
  EXPECT_EQ(Why(), "the coordinator at c:1 is lost: Socket closed");
}

TEST_F(MemberWithoutGrace, TakesTheEndOfAStreamForAnAnswerWhileTheConnectionStands) {
  EXPECT_EQ(tie_.StreamEnded(Unavailable("rank 1 failed"), true, At(0)), Act::kEnd);
  EXPECT_EQ(Why(), "the coordinator at c:1 ended the epoch: rank 1 failed");
}

TEST_F(Member, LooksForALostCoordinatorAndIsAttachedAgain) {
  const uint64_t before = tie_.number();
  EXPECT_EQ(Breaks(0), Act::kReattach);
  EXPECT_EQ(tie_.Pause(), Duration::zero());
  EXPECT_TRUE(tie_.lost());
  EXPECT_EQ(Looks(false, 29), Act::kNothing);
  EXPECT_EQ(tie_.Answered(OkStatus()), Act::kAttend);
  EXPECT_FALSE(tie_.attached());
  tie_.Confirmed();
  EXPECT_TRUE(tie_.attached());
  EXPECT_FALSE(tie_.lost());
  EXPECT_EQ(tie_.number(), before + 1);
  EXPECT_EQ(Looks(true, 100), Act::kNothing);
}

TEST_F(Member, EndsWithTheGrace) {
  Breaks(0);
  EXPECT_EQ(Looks(false, 29.9), Act::kNothing);
  EXPECT_EQ(Looks(false, 30), Act::kEnd);
  EXPECT_EQ(tie_.why().code(), StatusCode::kUnavailable);
  EXPECT_EQ(Why(),
            "the coordinator at c:1 is lost: Socket closed and in 30 s was not started again");
}

// Each loss has the whole grace, but one that falls into another counts from the first.
TEST_F(Member, CountsTheGraceFromTheLossUntilItIsAttachedAgain) {
  Breaks(0);
  tie_.Answered(OkStatus());
  EXPECT_EQ(Breaks(20), Act::kReattach);  // before it was confirmed
  EXPECT_EQ(Looks(false, 30), Act::kEnd);
}

TEST_F(Member, HasTheWholeGraceForALaterLoss) {
  Breaks(0);
  tie_.Answered(OkStatus());
  tie_.Confirmed();
  Breaks(100);
  EXPECT_EQ(Looks(false, 129), Act::kNothing);
  EXPECT_EQ(Looks(false, 130), Act::kEnd);
}

TEST_F(Member, GivesACoordinatorThatIsBackTheGraceOnceMore) {
  Breaks(0);
  EXPECT_EQ(Looks(true, 25), Act::kNothing);
  EXPECT_EQ(Looks(true, 54.9), Act::kNothing);
  EXPECT_EQ(Looks(true, 55), Act::kEnd);
  EXPECT_THAT(Why(), HasSubstr("did not take its members back"));
}

TEST_F(Member, GivesACoordinatorThatDiesAgainNoMoreTime) {
  Breaks(0);
  Looks(true, 25);
  EXPECT_EQ(tie_.Answered(kBroken), Act::kReattach);
  EXPECT_EQ(Looks(false, 31), Act::kEnd);
}

TEST_F(Member, PausesLongerAndLongerBetweenCallsThatBreak) {
  Breaks(0);
  Duration last = Duration::zero();
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(tie_.Answered(kBroken), Act::kReattach);
    EXPECT_GT(tie_.Pause(), last);
    last = tie_.Pause();
  }
  for (int i = 0; i < 100; ++i) tie_.Answered(kBroken);
  EXPECT_EQ(tie_.Pause(), last);
  tie_.Answered(OkStatus());
  tie_.Confirmed();
  EXPECT_EQ(tie_.Pause(), Duration::zero());
}

TEST_F(Member, EndsWhenTheCoordinatorSaysThatTheEpochIsOver) {
  Breaks(0);
  EXPECT_EQ(tie_.Answered(Aborted("epoch 3 is over: join again")), Act::kEnd);
  EXPECT_EQ(tie_.why().code(), StatusCode::kUnavailable);
  EXPECT_THAT(Why(), HasSubstr("epoch 3 is over: join again"));
  EXPECT_EQ(Looks(false, 100), Act::kNothing);
  EXPECT_EQ(Breaks(101), Act::kNothing);
}

TEST_F(Member, EndsWithAStreamsEndThatNoConnectionMakes) {
  EXPECT_EQ(tie_.StreamEnded(Aborted("attends on another stream"), false, At(0)), Act::kEnd);
  EXPECT_EQ(tie_.why().code(), StatusCode::kAborted);
}

// Such a code may be the connection's: a coordinator that meant it says so when it is asked.
TEST_F(Member, AsksAgainWhereTheStreamsEndMayBeTheConnections) {
  EXPECT_EQ(tie_.StreamEnded(Unavailable("rank 1 failed"), true, At(0)), Act::kReattach);
}

TEST_F(Member, EndsOnceWithTheNoticeOfAFailure) {
  EXPECT_EQ(tie_.Told(Unavailable("rank 1 died")), Act::kEnd);
  EXPECT_EQ(tie_.Told(Unavailable("rank 2 died")), Act::kNothing);
  EXPECT_EQ(Breaks(0), Act::kNothing);
  EXPECT_EQ(Why(), "rank 1 died");
}

TEST(Grace, IsWhatWasAskedForElseTheModes) {
  EXPECT_EQ(CoordinatorGrace(-1, false), Duration::zero());
  EXPECT_EQ(CoordinatorGrace(-1, true), Seconds(30));
  EXPECT_EQ(CoordinatorGrace(0, true), Duration::zero());
  EXPECT_EQ(CoordinatorGrace(7, false), Seconds(7));
}

}  // namespace
}  // namespace ringwood
