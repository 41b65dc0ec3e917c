#include "doctor/pairs.h"

#include <gtest/gtest.h>

#include <set>

namespace ringwood {
namespace {

TEST(PairRounds, EveryPairOnceAndNoHostTwiceInARound) {
  for (int hosts = 2; hosts <= 33; ++hosts) {
    std::set<std::pair<int, int>> seen;
    const std::vector<PairRound> rounds = PairRounds(hosts);
    for (const PairRound& round : rounds) {
      std::set<int> busy;
      for (const auto& [low, high] : round) {
        EXPECT_LT(low, high);
        EXPECT_GE(low, 0);
        EXPECT_LT(high, hosts);
        EXPECT_TRUE(busy.insert(low).second && busy.insert(high).second) << hosts;
        EXPECT_TRUE(seen.emplace(low, high).second) << hosts;
      }
    }
    EXPECT_EQ(seen.size(), static_cast<size_t>(hosts * (hosts - 1) / 2)) << hosts;
    EXPECT_EQ(rounds.size(), static_cast<size_t>(hosts - 1 + hosts % 2));
  }
}

TEST(PairRounds, OneHostHasNoPairs) {
  for (int hosts : {0, 1}) {
    for (const PairRound& round : PairRounds(hosts)) EXPECT_TRUE(round.empty());
  }
}

}  // namespace
}  // namespace ringwood
