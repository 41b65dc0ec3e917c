#include <gtest/gtest.h>

#include "dense/broadcast.h"
#include "dense/choose.h"
#include "dense/collective.h"
#include "dense/direct.h"
#include "dense/doubling.h"
#include "dense/hop_cost.h"
#include "dense/lattice/codes.h"
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

// The rank that adds last into `slot` and so knows the sum first.
int RingOwner(int slot, int world) { return (slot + world - 1) % world; }

TEST(Ring, EveryContributionLandsExactlyOnceOnEveryRank) {
  for (int world = 1; world <= kMaxWorld; ++world) {
    const Played played = Play(All(RingAllReduce, world), OwnContributions(world, world));
    ASSERT_TRUE(played.finished && played.drained && played.counted) << world;
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
    ASSERT_TRUE(played.finished && played.drained && played.counted) << world;
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
    ASSERT_TRUE(played.finished && played.drained && played.counted) << world;
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

// The closed forms count what the messages of a NIC are: of every rank on a host of its own.
TEST(ChooseSchedule, KnowsWhatCodesTake) {
  for (const int world : {2, 4, 8, 32}) {
    for (const Strategy strategy :
         {Strategy::kRing, Strategy::kRecursiveDoubling, Strategy::kDirect}) {
      CollectiveSpec spec;
      spec.elements = uint64_t{64} * 32 * kLatticePack;
      spec.wire = "int4";
      spec.strategy = strategy;
      const Collective collective = CollectiveFor(spec, {0, world});
      uint64_t coded = 0, plain = 0;
      for (size_t chunk = 0; chunk < ChunksOf(collective); ++chunk) {
        const auto slots = SlotsOf(collective, chunk);
        for (const Step& step : collective.schedule) {
          if (step.op != Op::kSend) continue;
          coded += MessageBytes(collective, slots[step.slot].count, step);
          plain += slots[step.slot].count * sizeof(float);
        }
      }
      const double ratio = CodedRatio(strategy, OneEach(world), 4);
      EXPECT_NEAR(static_cast<double>(coded) / static_cast<double>(plain), ratio, 0.01)
          << NameOf(strategy) << " " << world;
    }
  }
  EXPECT_LT(CodedRatio(Strategy::kRing, OneEach(4), 4), 0.18);
  EXPECT_EQ(ChooseSchedule({.bytes = 100'000'000, .world = 4, .wire = "int4"}).strategy,
            Strategy::kRing);
}

Strategy Chosen(uint64_t bytes, int world, const HopCost& cost, std::string_view wire = "fp32") {
  return ChooseSchedule({bytes, world, cost, wire}).strategy;
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
  EXPECT_EQ(Chosen(53'000, 4, cost, "bf16"), Strategy::kDirect);
  EXPECT_EQ(Chosen(54'000, 4, cost, "bf16"), Strategy::kRing);
}

// What all-reduces would take by the closed forms, and `call` more whatever the schedule.
std::vector<double> Timed(const HopCost& cost, const Hosts& hosts, double call) {
  std::vector<double> seconds;
  for (const HopSample& sample : kHopSamples) {
    seconds.push_back(call + PredictedSeconds(sample.strategy, {.bytes = sample.bytes,
                                                                .world = RanksOf(hosts),
                                                                .cost = cost,
                                                                .hosts = &hosts}));
  }
  return seconds;
}

TEST(HopCost, IsFoundAgainFromWhatAllReducesTake) {
  const HopCost cost{3e-4, 2e-8, 4e-5};
  for (int world = 3; world <= 17; ++world) {
    const Hosts hosts = OneEach(world);
    const HopCost found = HopCostOf(Timed(cost, hosts, 5e-4), hosts);
    EXPECT_NEAR(found.alpha, cost.alpha, 1e-9) << world;
    EXPECT_NEAR(found.message, cost.message, 1e-9) << world;
    EXPECT_NEAR(found.beta, cost.beta, 1e-14) << world;
    EXPECT_EQ(found.inside_beta, HopCost().inside_beta) << "several hosts do not tell it";
  }
  // Two ranks tell the hop, not its parts: they are as they were in the fixed cost.
  const HopCost two = HopCostOf(Timed(cost, OneEach(2), 5e-4), OneEach(2));
  EXPECT_NEAR(two.alpha + two.message, cost.alpha + cost.message, 1e-9);
  EXPECT_NEAR(two.alpha / two.message, HopCost().alpha / HopCost().message, 1e-9);
  // One host has no NIC.
  const Hosts one = {{0, 1, 2, 3}};
  const HopCost inside = HopCostOf(Timed({2e-5, 1, 1e-5, 3e-10}, one, 1e-4), one);
  EXPECT_NEAR(inside.inside_beta, 3e-10, 1e-15);
  EXPECT_NEAR(inside.alpha + inside.message, 3e-5, 1e-9);
  EXPECT_NEAR(inside.alpha / inside.message, HopCost().alpha / HopCost().message, 1e-9);
  EXPECT_EQ(inside.beta, HopCost().beta);
  EXPECT_EQ(SwitchPoints(inside, one).back().strategy, Strategy::kHierarchy);
}

TEST(HopCost, NonsenseGivesACostThatCanBeUsed) {
  for (const std::vector<double>& seconds :
       {std::vector<double>{0, 0, 0, 0, 0}, {5, 4, 3, 2, 1}, {1, 9, 1, 1e-9, 0}}) {
    const HopCost cost = HopCostOf(seconds, OneEach(4));
    EXPECT_GT(cost.alpha, 0);
    EXPECT_GT(cost.message, 0);
    EXPECT_GT(cost.beta, 0);
  }
}

TEST(SwitchPoints, AreWhereTheChoiceChanges) {
  const HopCost cost{1e-4, 1e-8, 2e-5};  // see SwitchesWhereTheClosedFormsCross
  const Hosts hosts = OneEach(4);
  const std::vector<SwitchPoint> points = SwitchPoints(cost, hosts);
  ASSERT_EQ(points.size(), 3u);
  for (const SwitchPoint& point : points) {
    if (point.bytes == UINT64_MAX) continue;
    EXPECT_EQ(Chosen(point.bytes, 4, cost), point.strategy);
    EXPECT_NE(Chosen(point.bytes + 1, 4, cost), point.strategy);
  }
  EXPECT_EQ(points[0].strategy, Strategy::kRecursiveDoubling);
  EXPECT_NEAR(static_cast<double>(points[0].bytes), 16'000, 1);
  EXPECT_EQ(points[1].strategy, Strategy::kDirect);
  EXPECT_EQ(points[1].bytes, kMaxDirectBytes);
  EXPECT_EQ(points[2].strategy, Strategy::kRing);
  EXPECT_EQ(points[2].bytes, UINT64_MAX);
  EXPECT_EQ(DescribeSwitches(cost, hosts).find("recursive doubling up to 15.6 KiB, direct"), 0u)
      << DescribeSwitches(cost, hosts);
  // Between hosts doubling ends at 32 KiB, however much messages cost; on one host it does not.
  const std::vector<SwitchPoint> slow = SwitchPoints({1e-5, 8e-9, 1e-4}, OneEach(8));
  EXPECT_EQ(slow.front().strategy, Strategy::kRecursiveDoubling);
  EXPECT_EQ(slow.front().bytes, 32u << 10);
  EXPECT_GT(SwitchPoints({1e-5, 8e-9, 1e-4}, {{0, 1, 2, 3}}).front().bytes, 32u << 10);
  // Where messages cost nothing and bytes much, doubling never pays.
  EXPECT_EQ(SwitchPoints({1e-4, 1e-6, 0}, hosts).front().strategy, Strategy::kDirect);
}

TEST(ChooseSchedule, RingsOfMediumTensorsHaveSeveralChunksAndNoTinyMessages) {
  EXPECT_EQ(RingMessageBytes(1 << 20, 4), 64u << 10);       // four chunks
  EXPECT_EQ(RingMessageBytes(256 << 10, 8), 32u << 10);     // one: messages would be tiny
  EXPECT_EQ(RingMessageBytes(102'000'000, 4), 256u << 10);  // as long as they get
}

TEST(ChooseSchedule, SaysTheTimeItExpectsAndWhy) {
  const Choice choice = ChooseSchedule({2'000'000, 4, {1e-4, 1e-8, 2e-5}});
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
