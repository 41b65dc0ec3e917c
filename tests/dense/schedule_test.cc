#include <gtest/gtest.h>

#include "dense/broadcast.h"
#include "dense/choose.h"
#include "dense/doubling.h"
#include "dense/ring.h"
#include "tests/dense/player.h"

namespace ringwood {
namespace {

constexpr int kMaxWorld = 33;

std::vector<Schedule> All(Schedule (*make)(int, int), int world) {
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < world; ++rank) schedules.push_back(make(rank, world));
  return schedules;
}

TEST(Ring, EveryContributionLandsExactlyOnceOnEveryRank) {
  for (int world = 1; world <= kMaxWorld; ++world) {
    const Played played = Play(All(RingAllReduce, world), OwnContributions(world, world));
    ASSERT_TRUE(played.finished && played.drained) << world;
    for (int rank = 0; rank < world; ++rank) {
      EXPECT_EQ(played.sent[rank], 2 * (world - 1));  // of world slots: 2(P-1)/P of the data
      for (int slot = 0; slot < world; ++slot) {
        ASSERT_EQ(played.slots[rank][slot], EveryoneOnce(world)) << world << " " << rank;
      }
    }
  }
}

TEST(Ring, ReduceScatterLeavesEachSumWithItsOwner) {
  for (int world = 1; world <= kMaxWorld; ++world) {
    const Played played = Play(All(RingReduceScatter, world), OwnContributions(world, world));
    ASSERT_TRUE(played.finished && played.drained);
    for (int slot = 0; slot < world; ++slot) {
      ASSERT_EQ(played.slots[RingOwner(slot, world)][slot], EveryoneOnce(world));
    }
    for (int sent : played.sent) EXPECT_EQ(sent, world - 1);
  }
}

TEST(Ring, AllGatherSpreadsWhatTheOwnersHold) {
  for (int world = 1; world <= kMaxWorld; ++world) {
    std::vector<std::vector<Contributions>> start(world, std::vector<Contributions>(world));
    for (int slot = 0; slot < world; ++slot) start[RingOwner(slot, world)][slot] = {{slot, 1}};
    const Played played = Play(All(RingAllGather, world), start);
    ASSERT_TRUE(played.finished && played.drained);
    for (int rank = 0; rank < world; ++rank) {
      for (int slot = 0; slot < world; ++slot) {
        ASSERT_EQ(played.slots[rank][slot], (Contributions{{slot, 1}}));
      }
    }
  }
}

TEST(RecursiveDoubling, EveryContributionLandsExactlyOnceOnEveryRank) {
  for (int world = 1; world <= kMaxWorld; ++world) {
    const Played played = Play(All(RecursiveDoubling, world), OwnContributions(world, 1));
    ASSERT_TRUE(played.finished && played.drained) << world;
    int core = 1, stages = 0;
    for (; 2 * core <= world; core *= 2) ++stages;
    int sent = 0;
    for (int rank = 0; rank < world; ++rank) {
      ASSERT_EQ(played.slots[rank][0], EveryoneOnce(world)) << world << " " << rank;
      sent += played.sent[rank];
    }
    EXPECT_EQ(sent, core * stages + 2 * (world - core));
  }
}

TEST(ChooseSchedule, SwitchesWhereTheClosedFormsCross) {
  const HopCost cost{1e-4, 1e-8};
  // 4 ranks: 6 a + 1.5 S b = 2 a + 2 S b at S = 8 a / b = 80,000 bytes.
  EXPECT_EQ(ChooseSchedule(79'000, 4, cost).strategy, Strategy::kRecursiveDoubling);
  EXPECT_EQ(ChooseSchedule(81'000, 4, cost).strategy, Strategy::kRing);
  EXPECT_DOUBLE_EQ(ChooseSchedule(81'000, 4, cost).seconds, 6e-4 + 1.5 * 81'000e-8);
  // 5 ranks: two more hops for the fifth, 8 a + 1.6 S b = 4 a + 4 S b at S = 16,667 bytes.
  EXPECT_EQ(ChooseSchedule(16'000, 5, cost).strategy, Strategy::kRecursiveDoubling);
  EXPECT_EQ(ChooseSchedule(17'000, 5, cost).strategy, Strategy::kRing);
  EXPECT_NE(ChooseSchedule(17'000, 5, cost).reason.find("ring"), std::string::npos);
}

TEST(Broadcast, ChainAndTreeReachEveryRankFromEveryRoot) {
  for (int world = 1; world <= kMaxWorld; ++world) {
    for (int root = 0; root < world; ++root) {
      for (auto make : {BroadcastChain, BroadcastTree}) {
        std::vector<Schedule> schedules;
        for (int rank = 0; rank < world; ++rank) schedules.push_back(make(rank, world, root));
        const Played played = Play(schedules, OwnContributions(world, 1));
        ASSERT_TRUE(played.finished && played.drained);
        int sent = 0;
        for (int rank = 0; rank < world; ++rank) {
          ASSERT_EQ(played.slots[rank][0], (Contributions{{root, 1}}));
          sent += played.sent[rank];
        }
        EXPECT_EQ(sent, world - 1);
      }
    }
  }
}

}  // namespace
}  // namespace ringwood
