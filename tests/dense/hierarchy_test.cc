#include "dense/hierarchy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <span>

#include "base/random.h"
#include "dense/all_reduce.h"
#include "dense/arithmetic/half.h"
#include "dense/direct.h"
#include "dense/doubling.h"
#include "dense/ring.h"
#include "dense/slots.h"
#include "tests/dense/player.h"
#include "tests/transport/world.h"

namespace ringwood {
namespace {

// Ranks placed host after host: {3, 1} is {{0, 1, 2}, {3}}.
Hosts Filled(const std::vector<int>& sizes) {
  Hosts hosts;
  int rank = 0;
  for (int size : sizes) {
    hosts.emplace_back();
    for (int i = 0; i < size; ++i) hosts.back().push_back(rank++);
  }
  return hosts;
}

// Ranks dealt out in turn: 5 ranks on 2 hosts are {{0, 2, 4}, {1, 3}}.
Hosts Dealt(int world, int count) {
  Hosts hosts(count);
  for (int rank = 0; rank < world; ++rank) hosts[rank % count].push_back(rank);
  return hosts;
}

std::vector<Hosts> ManyPlacements() {
  std::vector<Hosts> all = {Filled({3, 1}),       Filled({1, 3}),    Filled({2, 2, 1}),
                            Filled({1, 2, 2}),    Filled({5, 3, 1}), Filled({1, 1, 4}),
                            Filled({8, 3, 5, 1}), Filled({7, 2}),    Filled({16, 16})};
  for (int world = 1; world <= 17; ++world) {
    for (int count = 1; count <= world; ++count) all.push_back(Dealt(world, count));
  }
  for (int each = 1; each <= 4; ++each) {
    for (int count = 1; count <= 8; ++count) {
      all.push_back(Filled(std::vector<int>(count, each)));
    }
  }
  return all;
}

std::vector<Schedule> All(const Hosts& hosts) {
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < RanksOf(hosts); ++rank) {
    schedules.push_back(HierarchicalAllReduce(rank, hosts));
  }
  return schedules;
}

std::vector<int> HostOf(const Hosts& hosts) {
  std::vector<int> host_of(RanksOf(hosts));
  for (size_t h = 0; h < hosts.size(); ++h) {
    for (int rank : hosts[h]) host_of[rank] = static_cast<int>(h);
  }
  return host_of;
}

// Slots that leave each host.
std::vector<int> Leaving(const std::vector<Schedule>& schedules, const Hosts& hosts) {
  const std::vector<int> host_of = HostOf(hosts);
  std::vector<int> leaving(hosts.size());
  for (size_t rank = 0; rank < schedules.size(); ++rank) {
    for (const Step& step : schedules[rank]) {
      if (step.op == Op::kSend && host_of[step.peer] != host_of[rank]) ++leaving[host_of[rank]];
    }
  }
  return leaving;
}

TEST(Hierarchy, EveryContributionLandsExactlyOnceOnEveryRank) {
  for (const Hosts& hosts : ManyPlacements()) {
    const int world = RanksOf(hosts);
    const int slots = HierarchySlots(hosts);
    const Played played = Play(All(hosts), OwnContributions(world, slots));
    ASSERT_TRUE(played.finished && played.drained && played.counted)
        << world << " on " << hosts.size();
    for (int rank = 0; rank < world; ++rank) {
      for (int slot = 0; slot < slots; ++slot) {
        ASSERT_EQ(played.slots[rank][slot], EveryoneOnce(world))
            << world << " on " << hosts.size() << ", rank " << rank << " slot " << slot;
      }
    }
  }
}

TEST(Hierarchy, EveryNicCarriesOneCopy) {
  for (const Hosts& hosts : ManyPlacements()) {
    const int count = static_cast<int>(hosts.size());
    for (int leaving : Leaving(All(hosts), hosts)) {
      EXPECT_EQ(leaving * count, 2 * (count - 1) * HierarchySlots(hosts));  // 2(H-1)/H of S
    }
  }
}

using ScheduleOf = Schedule (*)(int, const Hosts&);
std::vector<Schedule> Halves(ScheduleOf half, const Hosts& hosts) {
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < RanksOf(hosts); ++rank) schedules.push_back(half(rank, hosts));
  return schedules;
}

// Reduce-scatter, and then all-gather of what it left.
TEST(Hierarchy, SharesAreCompleteOnTheirRanksAndThenEverywhere) {
  for (const Hosts& hosts : ManyPlacements()) {
    const int world = RanksOf(hosts);
    const Played scattered =
        Play(Halves(HierarchicalReduceScatter, hosts), OwnContributions(world, world));
    ASSERT_TRUE(scattered.finished && scattered.drained && scattered.counted) << world;
    auto shares = scattered.slots;
    for (int rank = 0; rank < world; ++rank) {
      for (int slot = 0; slot < world; ++slot) {
        if (slot != rank) {
          shares[rank][slot] = {};
          continue;
        }
        ASSERT_EQ(scattered.slots[rank][slot], EveryoneOnce(world)) << rank;
      }
    }
    const Played gathered = Play(Halves(HierarchicalAllGather, hosts), shares);
    ASSERT_TRUE(gathered.finished && gathered.drained) << world;
    for (int rank = 0; rank < world; ++rank) {
      for (int slot = 0; slot < world; ++slot) {
        ASSERT_EQ(gathered.slots[rank][slot], EveryoneOnce(world)) << rank << " " << slot;
      }
    }
  }
}

// Of P shares: a ring of all ranks has P-1 on the links between hosts.
TEST(Hierarchy, SharesCrossEachLinkBetweenHostsOnce) {
  for (const Hosts& hosts : ManyPlacements()) {
    const int world = RanksOf(hosts);
    for (const ScheduleOf half : {HierarchicalReduceScatter, HierarchicalAllGather}) {
      const std::vector<int> leaving = Leaving(Halves(half, hosts), hosts);
      for (size_t h = 0; h < hosts.size(); ++h) {
        // All but those that are complete on the next host, or begin there.
        const bool scatter = half == HierarchicalReduceScatter;
        const size_t other = scatter ? h : (h + 1) % hosts.size();
        EXPECT_EQ(leaving[h], world - static_cast<int>(hosts[other].size()));
      }
    }
  }
}

TEST(Hierarchy, ExactMessagesStayInsideAHostAndComeBeforeRoundedOnesOfTheirSlot) {
  for (const Hosts& hosts : ManyPlacements()) {
    const std::vector<int> host_of = HostOf(hosts);
    const std::vector<Schedule> schedules = All(hosts);
    for (size_t rank = 0; rank < schedules.size(); ++rank) {
      std::set<int> rounded;
      for (const Step& step : schedules[rank]) {
        if (!step.exact) {
          rounded.insert(step.slot);
          continue;
        }
        EXPECT_EQ(host_of[step.peer], host_of[rank]);
        EXPECT_EQ(rounded.count(step.slot), 0u);
      }
    }
  }
}

// A rank sends its part of all chunks under way at once, whether the agent is there or not.
TEST(Hierarchy, WhatALateAgentIsSentFitsIntoWhatATransportKeeps) {
  constexpr int kRingsAtOnce = 4;  // that of plan/plan.h, which knows of this folder
  const uint64_t kept = FabricLimits().stash_bytes;
  for (const auto& [hosts, largest, first] :
       std::vector<std::array<int, 3>>{{17, 2, 2}, {11, 3, 2}, {8, 4, 3}, {5, 8, 5}, {40, 3, 3}}) {
    SCOPED_TRACE(absl::StrFormat("%d hosts of %d, the first of %d", hosts, largest, first));
    Place place;
    for (int host = 0; host < hosts; ++host) {
      std::vector<int>& ranks = place.hosts.emplace_back();
      while (static_cast<int>(ranks.size()) < (host == 0 ? first : largest)) {
        ranks.push_back(place.world++);
      }
    }
    place.rank = 1;
    CollectiveSpec spec;
    spec.elements = size_t{64} << 20;
    spec.strategy = Strategy::kHierarchy;
    const Collective collective = CollectiveFor(spec, place);
    const std::vector<Range> slots = SlotsOf(collective, 0);
    std::map<int, uint64_t> sent;  // to the ranks of its host
    for (const Step& step : collective.schedule) {
      if (step.op != Op::kSend || !step.exact) continue;
      sent[step.peer] += slots[step.slot].count * sizeof(float) + sizeof(Frame);
    }
    EXPECT_FALSE(sent.empty());
    for (const auto& [peer, bytes] : sent) {
      EXPECT_LE(bytes * kChunksInFlight * kRingsAtOnce, kept) << "to " << peer;
    }
  }
}

TEST(Hosts, AreGroupedByNameInTheOrderOfTheirLowestRank) {
  EXPECT_EQ(GroupByHost({"b", "a", "b", "c"}), (Hosts{{0, 2}, {1}, {3}}));
  EXPECT_EQ(HostOrder({{0, 2}, {1}, {3}}), (std::vector<int>{0, 2, 1, 3}));
  EXPECT_TRUE(IsComplete({{0, 2}, {1}}, 3));
  EXPECT_FALSE(IsComplete({{0, 2}, {1}}, 4));
  EXPECT_FALSE(IsComplete({{0, 1}, {1}}, 3));
  EXPECT_FALSE(IsComplete({{0, 1}, {}}, 2));
}

TEST(DoublingHopsBetween, CountsThoseThatLeaveAHost) {
  EXPECT_EQ(DoublingHopsBetween({{0, 1, 2, 3}}), 0);
  EXPECT_EQ(DoublingHopsBetween(OneEach(2)), 1);
  EXPECT_EQ(DoublingHopsBetween(OneEach(8)), 3);
  EXPECT_EQ(DoublingHopsBetween(OneEach(5)), 4) << "the fifth brings its part, and takes the sum";
  EXPECT_EQ(DoublingHopsBetween({{0, 1, 2, 3}, {4, 5, 6, 7}}), 1);
  EXPECT_EQ(DoublingHopsBetween({{0, 2}, {1, 3}}), 1);
  EXPECT_EQ(DoublingHopsBetween({}), 0);
}

TEST(NicShare, IsWhatTheSchedulesSend) {
  for (const Hosts& hosts : ManyPlacements()) {
    const int world = RanksOf(hosts);
    std::vector<Schedule> direct, doubling;
    for (int rank = 0; rank < world; ++rank) {
      direct.push_back(DirectExchange(rank, world));
      doubling.push_back(RecursiveDoubling(rank, world));
    }
    const auto busiest = [&](const std::vector<Schedule>& schedules) {
      const std::vector<int> leaving = Leaving(schedules, hosts);
      return *std::max_element(leaving.begin(), leaving.end());
    };
    EXPECT_NEAR(NicShare(Strategy::kDirect, hosts), 1.0 * busiest(direct) / world, 1e-9);
    EXPECT_NEAR(NicShare(Strategy::kHierarchy, hosts),
                1.0 * busiest(All(hosts)) / HierarchySlots(hosts), 1e-9);
    // Hops one after the other may each have another busiest NIC.
    EXPECT_GE(NicShare(Strategy::kRecursiveDoubling, hosts), busiest(doubling));
  }
}

Strategy Chosen(uint64_t bytes, const Hosts& hosts) {
  return ChooseSchedule({.bytes = bytes, .world = RanksOf(hosts), .hosts = &hosts}).strategy;
}

TEST(ChooseSchedule, TakesTheHierarchyWhereHostsAreShared) {
  EXPECT_EQ(Chosen(102'000'000, Filled({2, 2})), Strategy::kHierarchy);
  EXPECT_EQ(Chosen(102'000'000, Filled({3, 1})), Strategy::kHierarchy);
  EXPECT_EQ(Chosen(102'000'000, Filled({1, 1, 1, 1})), Strategy::kRing);
  // A network as fast as memory: what the ranks of a host exchange decides, and is the same.
  const Hosts hosts = Filled({8, 8});
  const Choice fast =
      ChooseSchedule({.bytes = 102'000'000, .world = 16, .cost = {.beta = 1e-12}, .hosts = &hosts});
  EXPECT_NE(fast.reason.find("16 ranks on 2 hosts"), std::string::npos) << fast.reason;
  EXPECT_NE(Chosen(64, Filled({2, 2})), Strategy::kRing);
}

// ---- over transports ----

struct HostRank {
  std::vector<float> input, output, error, next_error;
  AllReduceResult result;
};

// Multiples of 2^-4 below 2^15, with errors: sums are exact in fp32, so nothing may be lost.
std::vector<HostRank> Ranks(int world, size_t count, bool coarse) {
  std::vector<HostRank> ranks(world);
  for (int r = 0; r < world; ++r) {
    Random random(r + 1);
    ranks[r].input.resize(count);
    ranks[r].error.resize(count);
    for (size_t i = 0; i < count; ++i) {
      ranks[r].input[i] = coarse ? static_cast<float>(random.Below(1 << 20)) / 16 - (1 << 15)
                                 : static_cast<float>((random.Unit() - 0.5) * (1 << (i % 20)));
      ranks[r].error[i] = static_cast<float>(random.Below(1 << 8)) / 16;
    }
    ranks[r].output.resize(count);
    ranks[r].next_error.assign(count, -1);
  }
  return ranks;
}

void AllReduce(World& world, const AllReduceRequest& prototype, std::vector<HostRank>& ranks) {
  world.RunAll([&](int rank, std::function<void()> finished) {
    HostRank& mine = ranks[rank];
    AllReduceRequest request = prototype;
    request.place.rank = rank;
    request.place.world = world.size();
    request.strategy = Strategy::kHierarchy;
    request.input = std::as_bytes(std::span(mine.input));
    request.output = std::as_writable_bytes(std::span(mine.output));
    if (request.wire == "bf16") {
      request.error = mine.error;
      request.next_error = mine.next_error;
    }
    StartAllReduce(world.transport(rank), request,
                   [&mine, finished](StatusOr<AllReduceResult> result) {
                     EXPECT_TRUE(result.ok()) << Message(result.status());
                     if (result.ok()) mine.result = *result;
                     finished();
                   });
  });
}

// Sequential, in the order that dense/hierarchy.h documents; rounded between hosts if `bf16`.
std::vector<float> Reference(const std::vector<HostRank>& ranks, const Hosts& hosts, bool bf16) {
  const int count = static_cast<int>(hosts.size());
  const auto slots = CutEvenly(ranks[0].input.size(), HierarchySlots(hosts));
  const auto travels = [&](float value) { return bf16 ? FromBFloat16(ToBFloat16(value)) : value; };
  std::vector<float> sum(ranks[0].input.size());
  for (int slot = 0; slot < HierarchySlots(hosts); ++slot) {
    const Range& range = slots[slot];
    for (size_t i = range.begin; i < range.begin + range.count; ++i) {
      for (int k = 0; k < count; ++k) {
        const int h = (slot % count + k) % count;
        const std::vector<int>& here = hosts[h];
        const int agent = Agent(hosts, h, slot / count);
        const size_t first = std::find(here.begin(), here.end(), agent) - here.begin();
        float of_host = ranks[agent].input[i];
        float owed = ranks[agent].error[i];
        for (size_t j = 1; j < here.size(); ++j) {
          const HostRank& other = ranks[here[(first + j) % here.size()]];
          if (bf16) {
            owed += other.input[i] + other.error[i];
          } else {
            of_host += other.input[i];
          }
        }
        if (bf16) of_host += owed;
        sum[i] = travels(k == 0 ? of_host : sum[i] + of_host);
      }
    }
  }
  return sum;
}

const std::vector<std::vector<int>>& Placements() {
  static const auto* const placements =
      new std::vector<std::vector<int>>{{2, 2}, {3, 1}, {2, 2, 1}, {4}, {1, 1, 1}, {1, 2, 3}};
  return *placements;
}

class HierarchyOver : public testing::TestWithParam<Kind> {};

TEST_P(HierarchyOver, EveryRankEndsWithTheSumInTheDocumentedOrder) {
  for (const auto& sizes : Placements()) {
    const Hosts hosts = Filled(sizes);
    World world(GetParam(), RanksOf(hosts));
    AllReduceRequest request;
    request.place.hosts = hosts;
    for (size_t count : {0, 1, 3, 1000, 20021}) {
      ++request.name.round;
      auto ranks = Ranks(world.size(), count, false);
      const auto before = ranks;
      AllReduce(world, request, ranks);
      const std::vector<float> expected = Reference(ranks, hosts, false);
      for (int r = 0; r < world.size(); ++r) {
        ASSERT_EQ(ranks[r].output, expected) << count << " elements on " << hosts.size();
        EXPECT_EQ(ranks[r].result.digest, ranks[0].result.digest);
        EXPECT_EQ(ranks[r].input, before[r].input);
      }
    }
  }
}

TEST_P(HierarchyOver, RoundedBetweenHostsItLosesNothing) {
  for (const auto& sizes : Placements()) {
    const Hosts hosts = Filled(sizes);
    World world(GetParam(), RanksOf(hosts));
    AllReduceRequest request;
    request.place.hosts = hosts;
    request.wire = "bf16";
    for (size_t count : {0, 1, 3, 1000, 20021}) {
      ++request.name.round;
      auto ranks = Ranks(world.size(), count, true);
      AllReduce(world, request, ranks);
      if (hosts.size() > 1) {
        ASSERT_EQ(ranks[0].output, Reference(ranks, hosts, true));
      }
      for (size_t i = 0; i < count; ++i) {
        double before = 0, after = ranks[0].output[i];
        for (const HostRank& rank : ranks) {
          before += static_cast<double>(rank.input[i]) + rank.error[i];
          after += rank.next_error[i];
        }
        ASSERT_EQ(before, after) << i;
      }
      for (const HostRank& rank : ranks) {
        ASSERT_TRUE(std::ranges::equal(std::as_bytes(std::span(rank.output)),
                                       std::as_bytes(std::span(ranks[0].output))));
        EXPECT_EQ(rank.result.digest, ranks[0].result.digest);
      }
    }
  }
}

TEST_P(HierarchyOver, LongTensorsAreCutIntoChunksWithTheSameBitsOnAllRanks) {
  for (const char* wire : {"fp32", "bf16"}) {
    const Hosts hosts = Filled({2, 1});
    World world(GetParam(), 3);
    AllReduceRequest request;
    request.place.hosts = hosts;
    request.wire = wire;
    auto ranks = Ranks(3, (1 << 20) + 1, true);
    AllReduce(world, request, ranks);
    for (const HostRank& rank : ranks) {
      EXPECT_EQ(rank.output, ranks[0].output);
      EXPECT_EQ(rank.result.digest, ranks[0].result.digest);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Transports, HierarchyOver,
                         testing::Values(Kind::kInProcess, Kind::kUcx, Kind::kUcxOneHost),
                         [](const auto& info) { return NameOfKind(info.param); });

TEST(RingByHosts, NeighboursOnOneHostAreNextToEachOther) {
  const Hosts hosts = Dealt(4, 2);  // {0, 2}, {1, 3}: as a ring by rank every hop would leave
  World world(Kind::kInProcess, 4);
  std::vector<std::vector<float>> inputs, outputs(4, std::vector<float>(8));
  for (int r = 0; r < 4; ++r) inputs.emplace_back(8, std::ldexp(1.0f + 0x1p-23f * r, r));
  world.RunAll([&](int rank, std::function<void()> finished) {
    AllReduceRequest request;
    request.place.rank = rank;
    request.place.world = 4;
    request.place.hosts = hosts;
    request.chunk_bytes = 32;
    request.input = std::as_bytes(std::span(inputs[rank]));
    request.output = std::as_writable_bytes(std::span(outputs[rank]));
    StartAllReduce(world.transport(rank), request,
                   [finished](StatusOr<AllReduceResult>) { finished(); });
  });
  const int order[] = {0, 2, 1, 3};
  for (int slot = 0; slot < 4; ++slot) {
    float sum = inputs[order[slot]][0];
    for (int k = 1; k < 4; ++k) sum += inputs[order[(slot + k) % 4]][0];
    for (int r = 0; r < 4; ++r) {
      EXPECT_EQ(outputs[r][2 * slot], sum);
    }
  }
}

TEST(AllReduce, HostsThatAreNotTheWorldAreRefused) {
  const Hosts hosts = Filled({2, 1});
  AllReduceRequest request;
  request.place.world = 4;
  request.place.hosts = hosts;
  Status status;
  StartAllReduce(nullptr, request, [&](StatusOr<AllReduceResult> r) { status = r.status(); });
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(Message(status).find("3 ranks, not the 4"), std::string::npos) << Message(status);
}

}  // namespace
}  // namespace ringwood
