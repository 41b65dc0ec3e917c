#include "plan/predict/simulated_cluster.h"

#include <gtest/gtest.h>

#include <utility>

namespace ringwood {
namespace {

// Powers of two, so that sums are exact. Messages of 16 bytes take 4 s of a NIC and 1 s of a
// memory.
constexpr double kAlpha = 0.5, kBeta = 0.25, kGamma = 0.125, kInside = 0.0625, kDelay = 8;

Scene SceneOn(Hosts hosts, int workers, size_t nodes) {
  Scene scene;
  scene.network.alpha = kAlpha;
  scene.network.beta = kBeta;
  scene.network.gamma = kGamma;
  scene.network.inside_beta = kInside;
  scene.network.delay = kDelay;
  scene.workers = workers;
  scene.hosts = std::move(hosts);
  Performance play;
  play.schedules = std::make_shared<const std::vector<Schedule>>(nodes);
  scene.plays = {play};
  return scene;
}

TEST(SimulatedCluster, BothNicsServeOneMessageAfterTheOther) {
  SimulatedCluster cluster(SceneOn({}, 3, 3));
  EXPECT_EQ(cluster.nodes(), 3u);
  EXPECT_FALSE(cluster.shared());
  // Two messages leave one NIC one after the other, a third one meanwhile another.
  const auto first = cluster.Send({0, 1, 16}, 2);
  EXPECT_EQ(first.seconds, 2 + kDelay + kAlpha);
  EXPECT_FALSE(first.through);
  const auto second = cluster.Send({0, 2, 16}, 3);
  EXPECT_EQ(second.seconds, 6 + kDelay + kAlpha);
  const auto third = cluster.Send({2, 1, 16}, 3);
  EXPECT_EQ(third.seconds, 3 + kDelay + kAlpha);
  // The receiver of the first and third takes them in as they come; its own sends are beside it.
  EXPECT_EQ(cluster.Receive({0, 1, 16}, first.seconds), first.seconds + 4);
  EXPECT_EQ(cluster.Receive({2, 1, 16}, third.seconds), first.seconds + 8);
  EXPECT_EQ(cluster.Send({1, 0, 16}, first.seconds).seconds, first.seconds + kDelay + kAlpha);
}

TEST(SimulatedCluster, NodesOfAHostShareItsNicAndItsMemory) {
  // Nodes 3 and 4 are no workers: each is alone on its host.
  SimulatedCluster cluster(SceneOn({{0, 2}, {1}}, 3, 5));
  EXPECT_TRUE(cluster.shared());
  const auto inside = cluster.Send({0, 2, 16}, 0);
  EXPECT_TRUE(inside.through);
  EXPECT_EQ(inside.seconds, 1 + kAlpha);
  EXPECT_EQ(cluster.Send({2, 0, 16}, 0).seconds, 2 + kAlpha);
  const auto out = cluster.Send({0, 1, 16}, 0);
  EXPECT_FALSE(out.through);
  EXPECT_EQ(out.seconds, kDelay + kAlpha);
  EXPECT_EQ(cluster.Send({2, 3, 16}, 0).seconds, 4 + kDelay + kAlpha);
  EXPECT_FALSE(cluster.Send({3, 4, 16}, 0).through);
}

TEST(SimulatedCluster, ASlowNodeSlowsBothEndsOfItsMessages) {
  Scene scene = SceneOn({}, 2, 2);
  scene.speeds = {{3, 2, 4}};
  SimulatedCluster cluster(scene);
  EXPECT_EQ(cluster.compute(0), 3);
  EXPECT_EQ(cluster.compute(1), 1);
  EXPECT_EQ(cluster.Send({0, 1, 16}, 0).seconds, 2 * (kDelay + kAlpha));
  EXPECT_EQ(cluster.Send({0, 1, 16}, 0).seconds, 16 + 2 * (kDelay + kAlpha));
  EXPECT_EQ(cluster.Receive({0, 1, 16}, 20), 20 + 16);
  EXPECT_EQ(cluster.Send({1, 0, 16}, 0).seconds, kDelay + kAlpha);
  EXPECT_EQ(cluster.Receive({1, 0, 16}, 20), 20 + 16);
}

TEST(SimulatedCluster, ANodesSumsFollowEachOther) {
  SimulatedCluster cluster(SceneOn({{0, 1}}, 2, 2));
  EXPECT_EQ(cluster.Add(0, 16, 1), 3);
  EXPECT_EQ(cluster.Add(0, 16, 2), 5);
  EXPECT_EQ(cluster.Add(1, 16, 2), 4);  // with an adder of its own
  EXPECT_EQ(cluster.Add(0, 16, 9), 11);
}

}  // namespace
}  // namespace ringwood
