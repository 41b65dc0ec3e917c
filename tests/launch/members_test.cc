#include "launch/members.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ringwood {
namespace {

using ::testing::ElementsAre;

// Ranks 0 and 1 on h1, rank 2 on h2.
RunOptions ThreeRanks(int servers, bool lone_coordinator = false) {
  RunOptions options;
  options.places.resize(2);
  options.places[0].host = "h1";
  options.places[0].first_rank = 0;
  options.places[0].count = 2;
  options.places[1].host = "h2";
  options.places[1].first_rank = 2;
  options.places[1].count = 1;
  options.servers = servers;
  options.lone_coordinator = lone_coordinator;
  return options;
}

TEST(Members, AreServersThenRanks) {
  const Members members(ThreeRanks(2));
  EXPECT_EQ(members.count(), 5);
  EXPECT_THAT(members.hosts(), ElementsAre("h1", "h2", "h1", "h1", "h2"));
  EXPECT_TRUE(members.IsServer(1));
  EXPECT_FALSE(members.IsServer(2));
  EXPECT_EQ(members.Name(1), "server 1 (host h2)");
  EXPECT_EQ(members.Name(4), "rank 2 (host h2)");
  EXPECT_EQ(members.OfRank(2), 4);
  EXPECT_EQ(members.RankOf(4), 2);
}

TEST(Members, OfRanksThatTheJobDoesNotHaveThereAreNone) {
  const Members members(ThreeRanks(1));
  EXPECT_EQ(members.OfRank(-1), -1);
  EXPECT_EQ(members.OfRank(3), -1);
}

TEST(Members, ACoordinatorThatIsNoReducerIsNotCountedAmongTheServers) {
  const Members members(ThreeRanks(2, true));
  EXPECT_EQ(members.Name(0), "coordinator (host h1)");
  EXPECT_EQ(members.Name(1), "server 0 (host h1)");
}

TEST(Members, AllButRankZeroSpeakBehindTheirNames) {
  std::vector<std::string> prefixes, files;
  for (const Output::Voice& voice : Members(ThreeRanks(1)).Voices()) {
    prefixes.push_back(voice.prefix);
    files.push_back(voice.file);
  }
  EXPECT_THAT(prefixes, ElementsAre("[server 0] ", "", "[1] ", "[2] "));
  EXPECT_THAT(files, ElementsAre("server0", "rank0", "rank1", "rank2"));
}

}  // namespace
}  // namespace ringwood
