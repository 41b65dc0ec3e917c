// Who stays apart from an epoch, and for how long.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "server/coordinator/patience/apart.h"
#include "server/coordinator/patience/cut_off.h"
#include "tests/base/at.h"

namespace ringwood {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Members each of its own host.
std::vector<std::string> Hosts(size_t count) { return std::vector<std::string>(count); }

TEST(CutOff, WhoeverIsComplainedOfStaysApart) {
  EXPECT_THAT(CutOff(Hosts(4), {}), IsEmpty());
  EXPECT_THAT(CutOff(Hosts(4), {{3, 1}}), ElementsAre(1));
  EXPECT_THAT(CutOff(Hosts(4), {{1, 3}}), ElementsAre(3));
  EXPECT_THAT(CutOff(Hosts(2), {{0, 1}, {1, 0}}), ElementsAre(1));
}

TEST(CutOff, WhoHearsNobodyStaysApart) {
  EXPECT_THAT(CutOff(Hosts(4), {{2, 2}}), ElementsAre(2));
  EXPECT_THAT(CutOff(Hosts(4), {{2, 2}, {3, 2}, {2, 1}}), ElementsAre(2));
  // Nobody hears anybody: one of them goes on.
  EXPECT_THAT(CutOff(Hosts(3), {{0, 0}, {1, 1}, {2, 2}}), ElementsAre(1, 2));
  EXPECT_THAT(CutOff(Hosts(1), {{0, 0}}), IsEmpty());
}

TEST(CutOff, AsFewAsPossible) {
  // Rank 1 neither hears nor reaches three others: it is rank 1, not the three.
  EXPECT_THAT(CutOff(Hosts(5), {{1, 0}, {1, 2}, {4, 1}}), ElementsAre(1));
  // Two halves.
  EXPECT_THAT(CutOff(Hosts(4), {{0, 2}, {0, 3}, {1, 2}, {1, 3}, {2, 0}, {2, 1}, {3, 0}, {3, 1}}),
              ElementsAre(2, 3));
}

// A host whose network is cut off stays apart as a whole, whoever noticed it.
TEST(CutOff, AHostStaysApartAsAWhole) {
  const std::vector<std::string> hosts = {"a", "b", "c", "a", "b", "c"};
  EXPECT_THAT(CutOff(hosts, {{1, 1}}), ElementsAre(1, 4));
  EXPECT_THAT(CutOff(hosts, {{0, 4, true}}), ElementsAre(1, 4));
  EXPECT_THAT(CutOff(hosts, {{0, 4, true}, {3, 1, true}, {4, 4}, {1, 1}}), ElementsAre(1, 4));
  EXPECT_THAT(CutOff(hosts, {{0, 4}}), ElementsAre(4)) << "one process of it hangs";
  EXPECT_THAT(CutOff(hosts, {{0, 4}, {2, 2}}), ElementsAre(2, 4, 5)) << "and another is cut off";
  EXPECT_THAT(CutOff(hosts, {{0, 4}, {1, 1}}), ElementsAre(1, 4)) << "its host is cut off";
}

TEST(CutOff, OfTwoHostsTheSmallerStaysApart) {
  EXPECT_THAT(CutOff({"a", "b", "b"}, {{0, 1, true}}), ElementsAre(0));
  EXPECT_THAT(CutOff({"a", "a", "b"}, {{2, 0, true}}), ElementsAre(2));
  EXPECT_THAT(CutOff({"a", "a", "b", "b"}, {{2, 0, true}}), ElementsAre(2, 3));
  EXPECT_THAT(CutOff({"a", "a", "a"}, {{0, 0}}), ElementsAre(0)) << "one host: its processes";
}

class CutOffsTest : public ::testing::Test {
 protected:
  CutOffsTest() { apart_.Begin(1, {10, 11, 12}); }

  std::vector<size_t> Judge(double at) {
    sentences_ = 0;
    const CutOffs::Verdict verdict = apart_.Judge({{10}, {11}, {12}}, TimePoint() + Seconds(at));
    for (const auto& [member, length] : verdict.sentences) {
      ++sentences_;
      length_ = ToSeconds(length);
    }
    return verdict.apart;
  }
  void Hear(uint64_t from, uint32_t node, double at) {
    EXPECT_TRUE(apart_.Hear(from, 1, node, false, TimePoint() + Seconds(at)));
  }
  double Until(uint64_t member) { return ToSeconds(apart_.Until(member) - TimePoint()); }

  CutOffs apart_{Seconds(5)};
  int sentences_ = 0;
  double length_ = 0;
};

TEST_F(CutOffsTest, EachSentenceIsTwiceAsLongAsTheOneBefore) {
  Hear(10, 2, 100);
  EXPECT_THAT(Judge(100), ElementsAre(2));
  EXPECT_EQ(length_, 10);
  EXPECT_EQ(Until(12), 110);
  EXPECT_THAT(Judge(105), ElementsAre(2));
  EXPECT_EQ(sentences_, 0);  // it serves the first
  Hear(10, 2, 111);
  EXPECT_THAT(Judge(111), ElementsAre(2));
  EXPECT_EQ(length_, 20);
  EXPECT_EQ(Until(12), 131);
}

TEST_F(CutOffsTest, WhomNobodyReachesIsFoundAndWhomItBlamedIsFree) {
  Hear(10, 2, 100);
  EXPECT_THAT(Judge(100), ElementsAre(2));
  Hear(10, 1, 102);
  EXPECT_THAT(Judge(102), ElementsAre(0));
  EXPECT_EQ(Until(12), 0);
  EXPECT_EQ(Until(10), 112);
}

TEST_F(CutOffsTest, OnlyTheEpochThatBeganLastCounts) {
  EXPECT_FALSE(apart_.Hear(10, 2, 1, false, TimePoint() + Seconds(100)));
  EXPECT_FALSE(apart_.Hear(10, 1, 3, false, TimePoint() + Seconds(100)));
  EXPECT_THAT(Judge(100), IsEmpty());
}

TEST_F(CutOffsTest, AStepTogetherEndsWhatWasSaidBefore) {
  Hear(10, 2, 100);
  EXPECT_THAT(Judge(100), ElementsAre(2));
  apart_.Begin(2, {10, 11});
  apart_.Worked();
  EXPECT_THAT(Judge(109), ElementsAre(2));  // it was not there
  apart_.Begin(3, {10, 11, 12});
  EXPECT_TRUE(apart_.Hear(11, 3, 0, false, TimePoint() + Seconds(120)));
  apart_.Worked();  // not what was said since
  EXPECT_THAT(Judge(120), ElementsAre(0));
  EXPECT_EQ(Until(12), 0);
}

TEST_F(CutOffsTest, WhatIsLongPastIsForgotten) {
  Hear(10, 2, 100);
  EXPECT_THAT(Judge(100), ElementsAre(2));
  Hear(11, 0, 300);
  EXPECT_THAT(Judge(300), ElementsAre(0));
  EXPECT_EQ(length_, 10);
  Hear(11, 2, 500);
  EXPECT_THAT(Judge(500), ElementsAre(2));
  EXPECT_EQ(length_, 10);  // as if it were the first
}

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
