#include <gtest/gtest.h>

#include "dense/broadcast.h"
#include "dense/choose.h"
#include "dense/direct.h"
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

TEST(DirectExchange, EveryContributionLandsExactlyOnceOnEveryRank) {
  for (int world = 1; world <= kMaxWorld; ++world) {
    const Played played = Play(All(DirectExchange, world), OwnContributions(world, world));
    ASSERT_TRUE(played.finished && played.drained) << world;
    for (int rank = 0; rank < world; ++rank) {
      EXPECT_EQ(played.sent[rank], 2 * (world - 1));  // of world slots, as in a ring
      for (int slot = 0; slot < world; ++slot) {
        ASSERT_EQ(played.slots[rank][slot], EveryoneOnce(world)) << world << " " << rank;
      }
    }
  }
}

TEST(DirectExchange, ItsHalvesAreAReduceScatterAndAnAllGatherWithRankRHoldingSlotR) {
  for (int world = 1; world <= kMaxWorld; ++world) {
    const Played scattered = Play(All(DirectReduceScatter, world), OwnContributions(world, world));
    std::vector<std::vector<Contributions>> start(world, std::vector<Contributions>(world));
    for (int slot = 0; slot < world; ++slot) start[slot][slot] = {{slot, 1}};
    const Played gathered = Play(All(DirectAllGather, world), start);
    ASSERT_TRUE(scattered.finished && scattered.drained && gathered.finished && gathered.drained);
    for (int rank = 0; rank < world; ++rank) {
      EXPECT_EQ(scattered.sent[rank], world - 1);
      EXPECT_EQ(gathered.sent[rank], world - 1);
      ASSERT_EQ(scattered.slots[rank][rank], EveryoneOnce(world));
      for (int slot = 0; slot < world; ++slot) {
        ASSERT_EQ(gathered.slots[rank][slot], (Contributions{{slot, 1}}));
      }
    }
  }
}

Strategy Chosen(uint64_t bytes, int world, const HopCost& cost, double ring_ratio = 1) {
  return ChooseSchedule({bytes, world, cost, ring_ratio}).strategy;
}

TEST(ChooseSchedule, SwitchesWhereTheClosedFormsCross) {
  // 4 ranks, free messages: doubling 2 a + 2 S b, direct 2 a + 1.5 S b.
  EXPECT_EQ(Chosen(1000, 4, {1e-4, 1e-8, 0}), Strategy::kDirect);
  // o = 2e-5: doubling 2 a + 2 o + 2 S b = direct 2 a + 6 o + 1.5 S b at S = 8 o / b = 16,000.
  const HopCost cost{1e-4, 1e-8, 2e-5};
  EXPECT_EQ(Chosen(15'900, 4, cost), Strategy::kRecursiveDoubling);
  EXPECT_EQ(Chosen(16'100, 4, cost), Strategy::kDirect);
  EXPECT_EQ(Chosen(kMaxDirectBytes, 4, cost), Strategy::kDirect);
  EXPECT_NE(Chosen(kMaxDirectBytes + 1, 4, cost), Strategy::kDirect);
  EXPECT_EQ(Chosen(100'000, 4, cost), Strategy::kRing);
  // 5 ranks: two more hops for the fifth, 4 (a + o) + 4 S b = 2 a + 8 o + 1.6 S b: never shorter.
  EXPECT_EQ(Chosen(4, 5, cost), Strategy::kDirect);
  // A ring that sends half of the bytes: 6 (a + o) + 0.75 S b = 2 a + 6 o + 1.5 S b at 53,333.
  EXPECT_EQ(Chosen(53'000, 4, cost, 0.5), Strategy::kDirect);
  EXPECT_EQ(Chosen(54'000, 4, cost, 0.5), Strategy::kRing);
}

TEST(ChooseSchedule, RingsOfMediumTensorsHaveSeveralChunksAndNoTinyMessages) {
  EXPECT_EQ(RingMessageBytes(1 << 20, 4), 64u << 10);       // four chunks
  EXPECT_EQ(RingMessageBytes(256 << 10, 8), 32u << 10);     // one: messages would be tiny
  EXPECT_EQ(RingMessageBytes(102'000'000, 4), 256u << 10);  // as long as they get
}

TEST(ChooseSchedule, SaysTheTimeItExpectsAndWhy) {
  const Choice choice = ChooseSchedule({2'000'000, 4, {1e-4, 1e-8, 2e-5}, 1});
  EXPECT_DOUBLE_EQ(choice.seconds, 6 * 1.2e-4 + 1.5 * 2e-2);
  EXPECT_NE(choice.reason.find("ring for 2000000 bytes and 4 ranks"), std::string::npos);
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
