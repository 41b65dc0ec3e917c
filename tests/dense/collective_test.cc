#include "dense/collective.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "dense/lattice/codes.h"
#include "tests/dense/player.h"

namespace ringwood {
namespace {

constexpr Verb kVerbs[] = {Verb::kAllReduce, Verb::kReduceScatter, Verb::kAllGather,
                           Verb::kBroadcast, Verb::kReduce};

// Calls `check(spec, place of rank 0)` for small and large tensors of all verbs on many hosts.
template <typename Check>
void ForEach(const Check& check) {
  for (const Verb verb : kVerbs) {
    for (const int world : {1, 2, 3, 4, 5, 8, 9}) {
      for (const int ranks : {1, 2, 4}) {
        for (const uint64_t elements : {1u, 2u, 100u, 20'000u, 300'003u}) {
          for (const DataType type : {DataType::kFloat32, DataType::kUInt8, DataType::kFloat64}) {
            CollectiveSpec spec;
            spec.verb = verb;
            spec.type = type;
            spec.elements = elements;
            const bool sums = verb == Verb::kAllReduce && type == DataType::kFloat32;
            if (sums && ranks == 2) spec.wire = "bf16";
            if (sums && ranks == 4) spec.wire = world % 2 == 0 ? "int4" : "int8";
            spec.root = world - 1;
            check(spec, Place{0, world, EvenHosts(world, ranks)});
          }
        }
      }
    }
  }
}

TEST(Collective, EveryElementLiesInOneSlotOfOneChunk) {
  ForEach([](const CollectiveSpec& spec, const Place& place) {
    const Collective collective = CollectiveFor(spec, place);
    std::vector<uint8_t> seen(spec.elements, 0);
    for (size_t chunk = 0; chunk < ChunksOf(collective); ++chunk) {
      const std::vector<Range> slots = SlotsOf(collective, chunk);
      ASSERT_EQ(slots.size(), static_cast<size_t>(collective.slots));
      for (const Range& slot : slots) {
        for (size_t i = slot.begin; i < slot.begin + slot.count; ++i) ASSERT_EQ(seen.at(i)++, 0);
      }
    }
    ASSERT_EQ(std::count(seen.begin(), seen.end(), 1), static_cast<ptrdiff_t>(spec.elements))
        << NameOf(spec.verb) << " of " << place.world << ", " << collective.reason;
  });
}

// However ranks were dealt out to hosts, and whoever is the root.
TEST(Collective, ABroadcastsChainEntersEachHostOnce) {
  const Hosts placements[] = {
      {{0, 3, 6}, {1, 4, 7}, {2, 5}}, EvenHosts(8, 4), {{0}, {1, 2, 3}}, OneEach(5)};
  for (const Hosts& hosts : placements) {
    const int world = RanksOf(hosts);
    std::vector<size_t> host_of(world);
    for (size_t h = 0; h < hosts.size(); ++h) {
      for (const int rank : hosts[h]) host_of[rank] = h;
    }
    for (int root = 0; root < world; ++root) {
      for (const Verb verb : {Verb::kBroadcast, Verb::kReduce}) {
        for (const Strategy strategy : {Strategy::kChain, Strategy::kBinomialTree}) {
          std::vector<Schedule> all;
          size_t crossing = 0;
          for (int rank = 0; rank < world; ++rank) {
            all.push_back(ScheduleFor(verb, strategy, root, {rank, world, hosts}));
            for (const Step& step : all.back()) {
              crossing += step.op == Op::kSend && host_of[step.peer] != host_of[rank];
            }
          }
          const Played played = Play(all, OwnContributions(world, 1));
          ASSERT_TRUE(played.finished && played.drained);
          if (verb == Verb::kReduce) {
            EXPECT_EQ(played.slots[root][0], EveryoneOnce(world));
          } else {
            for (const auto& slots : played.slots) EXPECT_EQ(slots[0], Contributions({{root, 1}}));
          }
          if (strategy == Strategy::kChain) EXPECT_EQ(crossing, hosts.size() - 1);
        }
      }
    }
  }
}

TEST(Collective, SlotsOfCodesBeginWithABlock) {
  for (const char* wire : {"int8", "int4"}) {
    for (int world = 2; world <= 33; ++world) {
      for (const uint64_t elements : {1u, 256u, 700u, 100'000u}) {
        for (const uint64_t chunk_bytes : {0u, 1u, 5000u, 1u << 20}) {
          CollectiveSpec spec;
          spec.elements = elements;
          spec.wire = wire;
          spec.chunk_bytes = chunk_bytes;
          const Collective collective = CollectiveFor(spec, {0, world});
          size_t next = 0;
          for (size_t chunk = 0; chunk < ChunksOf(collective); ++chunk) {
            for (const Range& slot : SlotsOf(collective, chunk)) {
              if (slot.count == 0) continue;
              ASSERT_EQ(slot.begin, next);
              ASSERT_EQ(slot.begin % kLatticePack, 0u);
              next += slot.count;
            }
          }
          ASSERT_EQ(next, elements);
        }
      }
    }
  }
}

TEST(Collective, SharesOfAllChunksTogetherAreThoseOfTheTensor) {
  ForEach([](const CollectiveSpec& spec, const Place& place) {
    const Collective collective = CollectiveFor(spec, place);
    if (collective.shares.empty()) return;
    const std::vector<Range> shares = CutEvenly(spec.elements, place.world);
    for (size_t chunk = 0; chunk < ChunksOf(collective); ++chunk) {
      const std::vector<Range> slots = SlotsOf(collective, chunk);
      for (size_t s = 0; s < slots.size(); ++s) {
        ASSERT_GE(slots[s].begin, shares[s].begin);
        ASSERT_LE(slots[s].begin + slots[s].count, shares[s].begin + shares[s].count);
      }
    }
  });
}

TEST(Collective, RanksDifferInTheScheduleOnlyAndTheirSchedulesMeet) {
  ForEach([](const CollectiveSpec& spec, const Place& place) {
    const Collective first = CollectiveFor(spec, place);
    std::vector<Schedule> schedules;
    for (int rank = 0; rank < place.world; ++rank) {
      Place here = place;
      here.rank = rank;
      const Collective collective = CollectiveFor(spec, here);
      ASSERT_EQ(collective.strategy, first.strategy);
      ASSERT_EQ(collective.chunk_elements, first.chunk_elements);
      ASSERT_EQ(collective.slots, first.slots);
      ASSERT_EQ(collective.shares.size(), first.shares.size());
      ASSERT_EQ(collective.rounded, first.rounded);
      ASSERT_EQ(collective.reason, first.reason);
      ASSERT_EQ(collective.schedule, ScheduleFor(spec.verb, first.strategy, spec.root, here));
      schedules.push_back(collective.schedule);
    }
    const Played played = Play(schedules, OwnContributions(place.world, first.slots));
    ASSERT_TRUE(played.finished && played.drained) << NameOf(spec.verb) << " of " << place.world;
  });
}

TEST(Collective, AWorkerMeetsFewPeersInALargeWorld) {
  EXPECT_EQ(FewestPeers({0, 1, {}, {}, 0}), 0u);
  EXPECT_EQ(FewestPeers({0, 2, {}, {}, 0}), 1u);
  EXPECT_EQ(FewestPeers({0, 8, {}, {}, 3}), 4u + 3);  // 1 and 7; 1, 2 and 4; the servers
  EXPECT_EQ(FewestPeers({5, 4096, {}, {}, 0}), 13u);
}

TEST(Collective, TheShareOfARankIsItsOwn) {
  for (const uint64_t elements : {100u, 1'000'000u}) {  // direct exchange, and a ring
    for (int world = 2; world <= 9; ++world) {
      std::vector<Schedule> schedules;
      for (int rank = 0; rank < world; ++rank) {
        CollectiveSpec spec;
        spec.verb = Verb::kReduceScatter;
        spec.elements = elements;
        schedules.push_back(CollectiveFor(spec, {rank, world}).schedule);
      }
      const Played played = Play(schedules, OwnContributions(world, world));
      for (int rank = 0; rank < world; ++rank) {
        ASSERT_EQ(played.slots[rank][rank], EveryoneOnce(world)) << world;
      }
    }
  }
}

TEST(Collective, ASizeOfChunksTakesTheRingAndAStrategyIsTaken) {
  CollectiveSpec spec;
  spec.elements = 1000;
  spec.strategy = Strategy::kDirect;
  EXPECT_EQ(CollectiveFor(spec, {0, 4}).strategy, Strategy::kDirect);
  EXPECT_EQ(CollectiveFor(spec, {0, 4}).reason, "as asked for");
  spec.chunk_bytes = 400;
  const Collective ring = CollectiveFor(spec, {0, 4});
  EXPECT_EQ(ring.strategy, Strategy::kRing);
  EXPECT_EQ(ChunksOf(ring), 10u);
  spec = {};
  spec.elements = 1000;
  EXPECT_NE(CollectiveFor(spec, {0, 4}).reason.find("for 4000 bytes and 4 ranks on 4 hosts"),
            std::string::npos);
}

}  // namespace
}  // namespace ringwood
