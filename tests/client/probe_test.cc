// What a job measures: hops of its network, wire formats of its processor.

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "client/connection/hop_probe.h"
#include "client/connection/ring_probe.h"
#include "client/replan/wire_speed.h"
#include "tests/client/job.h"

namespace ringwood {
namespace {

// Runs `body` on every rank of a world of threads; rank r is on hosts[r].
void OnEveryRank(const std::vector<std::string>& hosts,
                 const std::function<void(EpochLink*)>& body) {
  const int world = static_cast<int>(hosts.size());
  InProcessNetwork network;
  GatheringCoordinator coordinator(world, 0, false);
  MemoryStore store;
  std::vector<std::thread> threads;
  for (int r = 0; r < world; ++r) {
    threads.emplace_back([&, r] {
      SessionOptions options;
      options.coordinator = "127.0.0.1:1";
      options.rank = r;
      options.world = world;
      options.host = hosts[r];
      options.network_interface = "card";
      Parts parts;
      parts.make_fabric = [&](Loop* net) -> StatusOr<std::unique_ptr<Fabric>> {
        return network.MakeFabric(net);
      };
      parts.control = std::make_unique<GatheringControl>(&coordinator, r);
      parts.store = std::make_unique<MemoryStoreClient>(&store);
      Connection connection(std::move(parts));
      auto link = EpochLink::Join(&connection, options);
      ASSERT_TRUE(link.ok()) << link.status();
      body(link->get());
      EXPECT_TRUE((*link)->Leave("").ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(HopProbe, AllRanksHaveTheSameCostAndGoOnWithIt) {
  constexpr int kWorld = 3;
  std::vector<HopCost> costs(kWorld);
  std::vector<float> sums(kWorld);
  OnEveryRank({"a", "a", "a"}, [&](EpochLink* link) {
    const int r = link->place().rank;
    const auto cost = ProbeHops(link->collectives(), link->place());
    ASSERT_TRUE(cost.ok()) << cost.status();
    costs[r] = *cost;
    link->TakeCost(*cost);
    sums[r] = static_cast<float>(r + 1);
    EXPECT_TRUE(link->collectives()
                    ->AllReduce(std::as_writable_bytes(std::span(&sums[r], 1)), DataType::kFloat32,
                                ReduceOp::kSum)
                    .ok());
  });
  for (int r = 0; r < kWorld; ++r) {
    EXPECT_EQ(costs[r], costs[0]) << r;  // to the bit: a message more or less would hang the job
    EXPECT_EQ(sums[r], 6) << r;
  }
  EXPECT_NE(costs[0], HopCost()) << "nothing was measured";
}

TEST(HopProbe, TheWireBetweenHostsIsMeasuredAlikeOnAllRanks) {
  for (const std::vector<std::string>& hosts :
       {std::vector<std::string>{"a", "b"}, {"a", "b", "c"}, {"a", "a", "b", "b"}}) {
    std::vector<double> rates(hosts.size());
    OnEveryRank(hosts, [&](EpochLink* link) {
      const auto rate = ProbeWire(link->collectives(), link->place());
      ASSERT_TRUE(rate.ok()) << rate.status();
      rates[link->place().rank] = *rate;
    });
    for (const double rate : rates) {
      EXPECT_EQ(rate, rates[0]) << hosts.size();
      EXPECT_GE(rate, 0) << hosts.size();
    }
  }
}

TEST(HopProbe, AHopBetweenHostsIsMeasuredAlikeOnAllRanks) {
  std::vector<double> hops(3);
  OnEveryRank({"a", "b", "b"}, [&](EpochLink* link) {
    const auto hop = ProbeHop(link->collectives(), link->place());
    ASSERT_TRUE(hop.ok()) << hop.status();
    hops[link->place().rank] = *hop;
  });
  for (const double hop : hops) {
    EXPECT_EQ(hop, hops[0]);
    EXPECT_GT(hop, 0);
  }
}

TEST(HopProbe, WhatOneRankKnowsTheOthersAreTold) {
  std::vector<MeasuredLink> links(3);
  OnEveryRank({"a", "b", "c"}, [&](EpochLink* link) {
    const int rank = link->place().rank;
    const auto told = ShareLink(rank == 1 ? MeasuredLink{1e7, 0.05} : MeasuredLink{}, link);
    ASSERT_TRUE(told.ok()) << told.status();
    links[rank] = *told;
  });
  for (const MeasuredLink& link : links) {
    EXPECT_EQ(link.bytes_per_second, 1e7);
    EXPECT_EQ(link.hop_seconds, 0.05);
  }
}

TEST(HopProbe, LongTurnsAreFew) {
  EXPECT_EQ(TurnsBehind(0.001, 0.25, 6), 6);
  EXPECT_EQ(TurnsBehind(0.1, 0.25, 6), 2);
  EXPECT_EQ(TurnsBehind(0.4, 0.25, 6), 0) << "the first one is enough";
  EXPECT_EQ(TurnsBehind(0, 0.25, 6), 6);
  EXPECT_EQ(TurnsBehind(1e9, std::numeric_limits<double>::infinity(), 6), 6);
}

// Ranks that went by their own clocks would send different messages, and hang.
TEST(HopProbe, AllRanksTakeTheTurnsOfTheSlowest) {
  std::vector<int> turns(3);
  OnEveryRank({"a", "b", "c"}, [&](EpochLink* link) {
    const int rank = link->place().rank;
    const auto agreed = AgreeOnTurns(AllReduceOf(link->collectives()), 0.05 * (rank + 1), 0.5, 6);
    ASSERT_TRUE(agreed.ok()) << agreed.status();
    turns[rank] = *agreed;
  });
  EXPECT_EQ(turns, std::vector<int>(3, 3));
}

TEST(HopProbe, OneHostHasNoWire) {
  OnEveryRank({"a", "a"}, [](EpochLink* link) {
    const auto sent = [&] {
      uint64_t bytes = 0;
      const Status read = link->connection()->net()->Call(
          [&] {
            bytes = link->transport()->Counters().sent_bytes;
            return OkStatus();
          },
          Seconds(30));
      EXPECT_TRUE(read.ok()) << read;
      return bytes;
    };
    const uint64_t before = sent();
    const auto rate = ProbeWire(link->collectives(), link->place());
    ASSERT_TRUE(rate.ok()) << rate.status();
    EXPECT_EQ(*rate, 0);
    const auto hop = ProbeHop(link->collectives(), link->place());
    ASSERT_TRUE(hop.ok()) << hop.status();
    EXPECT_EQ(*hop, 0);
    EXPECT_EQ(sent(), before) << "nothing is sent for it";
  });
}

TEST(WireSpeed, OnlyFp32CostsNothing) {
  EXPECT_EQ(MeasureWireSpeed("fp32").encode_seconds_per_byte, 0);
  for (const char* wire : {"bf16", "int8", "int4"}) {
    const WireSpeed speed = MeasureWireSpeed(wire);
    EXPECT_GT(speed.encode_seconds_per_byte, 0) << wire;
    EXPECT_GT(speed.decode_seconds_per_byte, 0) << wire;
  }
}

}  // namespace
}  // namespace ringwood
