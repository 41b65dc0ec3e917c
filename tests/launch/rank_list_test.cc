#include "launch/rank_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/hosts.h"

namespace ringwood {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(RankList, NeighboursAreOneRange) {
  EXPECT_EQ(RankList({}), "");
  EXPECT_EQ(RankList({3}), "3");
  EXPECT_EQ(RankList({0, 1, 2, 5, 7, 8}), "0-2,5,7-8");
}

TEST(RankList, WhatIsWrittenIsRead) {
  std::vector<int> all(kMaxRanks);
  for (int rank = 0; rank < kMaxRanks; ++rank) all[rank] = rank;
  for (const std::vector<int>& ranks : {std::vector<int>{}, {3}, {0, 2, 4}, {0, 1, 2, 5}, all}) {
    const auto read = ParseRankList(RankList(ranks));
    ASSERT_TRUE(read.ok());
    EXPECT_EQ(*read, ranks);
  }
}

TEST(RankList, WhatIsNoListIsRefused) {
  for (const char* text :
       {"x", "-1", "3-1", "2,1", "0,0", "0-99999999", "1,,2", "all", "0-", "3x"}) {
    EXPECT_FALSE(ParseRankList(text).ok()) << text;
  }
}

}  // namespace
}  // namespace ringwood
