#include "client/hop_probe.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "tests/client/job.h"

namespace ringwood {
namespace {

TEST(HopProbe, AllRanksHaveTheSameCostAndGoOnWithIt) {
  constexpr int kWorld = 3;
  InProcessNetwork network;
  GatheringCoordinator coordinator(kWorld, 0, false);
  MemoryStore store;
  std::vector<HopCost> costs(kWorld);
  std::vector<float> sums(kWorld);
  std::vector<std::thread> threads;
  for (int r = 0; r < kWorld; ++r) {
    threads.emplace_back([&, r] {
      SessionOptions options;
      options.coordinator = "127.0.0.1:1";
      options.rank = r;
      options.world = kWorld;
      Parts parts;
      parts.make_fabric = [&](Loop* net) -> StatusOr<std::unique_ptr<Fabric>> {
        return network.MakeFabric(net);
      };
      parts.control = std::make_unique<GatheringControl>(&coordinator, r);
      parts.store = std::make_unique<MemoryStoreClient>(&store);
      auto connection = Connection::Open(options, std::move(parts));
      ASSERT_TRUE(connection.ok()) << connection.status();
      Collectives collectives(connection->get());
      const auto cost = ProbeHops(&collectives, (*connection)->place());
      ASSERT_TRUE(cost.ok()) << cost.status();
      costs[r] = *cost;
      (*connection)->TakeCost(*cost);
      sums[r] = static_cast<float>(r + 1);
      EXPECT_TRUE(collectives
                      .AllReduce(std::as_writable_bytes(std::span(&sums[r], 1)), DataType::kFloat32,
                                 ReduceOp::kSum)
                      .ok());
      EXPECT_TRUE((*connection)->Leave("").ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int r = 0; r < kWorld; ++r) {
    EXPECT_EQ(costs[r], costs[0]) << r;  // to the bit: a message more or less would hang the job
    EXPECT_EQ(sums[r], 6) << r;
  }
  EXPECT_NE(costs[0], HopCost()) << "nothing was measured";
}

}  // namespace
}  // namespace ringwood
