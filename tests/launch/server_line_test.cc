#include "launch/server_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ringwood {
namespace {

using Kind = ServerLine::Kind;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(ServerLine, TheAddressIsRead) {
  const auto line = ReadServerLine(std::string(kListening) + "127.0.0.1:4321");
  ASSERT_TRUE(line);
  EXPECT_EQ(line->kind, Kind::kListening);
  EXPECT_EQ(line->text, "127.0.0.1:4321");
}

TEST(ServerLine, TheSentenceOfAFailureNamesARankOrNobody) {
  const auto verdict = ReadServerLine(std::string(kVerdict) + "rank 12 (host h1) failed at step 3");
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->kind, Kind::kVerdict);
  EXPECT_EQ(verdict->text, "rank 12 (host h1) failed at step 3");
  EXPECT_EQ(verdict->rank, 12);
  for (const char* sentence :
       {"the job failed", "server 1 (host h1) failed", "rank", "rank -3 x"}) {
    const auto line = ReadServerLine(std::string(kRecovery) + sentence);
    ASSERT_TRUE(line);
    EXPECT_EQ(line->kind, Kind::kRecovery);
    EXPECT_EQ(line->rank, -1) << sentence;
  }
}

TEST(ServerLine, AnEpochIsReadAsItIsWritten) {
  const auto line = ReadServerLine(EpochLine(18446744073709551615u, {0, 1, 2, 5}));
  ASSERT_TRUE(line);
  EXPECT_EQ(line->kind, Kind::kEpoch);
  EXPECT_EQ(line->epoch, 18446744073709551615u);
  EXPECT_THAT(line->ranks, ElementsAre(0, 1, 2, 5));
  for (const char* other : {"", "3", "x 0-2", "3 0-", "3 all of them"}) {
    const auto read = ReadServerLine(std::string(kEpoch) + other);
    ASSERT_TRUE(read) << other;
    EXPECT_THAT(read->ranks, IsEmpty()) << other;
  }
}

TEST(ServerLine, AwaitedRanksAreReadAsTheyAreWritten) {
  const auto line = ReadServerLine(AwaitsLine({1, 2, 3, 7}));
  ASSERT_TRUE(line);
  EXPECT_EQ(line->kind, Kind::kAwaits);
  EXPECT_THAT(line->ranks, ElementsAre(1, 2, 3, 7));
  EXPECT_THAT(ReadServerLine(std::string(kAwaits) + "all of them")->ranks, IsEmpty());
}

TEST(ServerLine, OtherLinesAreForTheUser) {
  for (const char* line : {"", "step 3", "ringwood server", "a ringwood server epoch 3 0"}) {
    EXPECT_FALSE(ReadServerLine(line)) << line;
  }
}

}  // namespace
}  // namespace ringwood
