// The real coordinator is killed under real ranks, and started again: they train on.
#include <gtest/gtest.h>

#include <cstdio>

#include "base/random.h"
#include "server/server.h"
#include "tests/cli/restarted_coordinator.h"

namespace ringwood {
namespace {

constexpr int kRanks = 3;
constexpr double kGrace = 60;

double MedianOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Kills the coordinator of ranks that train, once for each downtime, and prints the longest pauses
// beyond it. Returns the epochs that the ranks were in.
std::set<uint64_t> KillAndRestart(RestartedCoordinator* coordinator, const char* what,
                                  const std::vector<double>& downtimes) {
  TrainingThreads ranks(coordinator->address(), kRanks, kGrace);
  std::vector<double> beyond;
  for (const double down : downtimes) {
    if (!ranks.Advance(20)) break;
    const TimePoint killed = Now();
    coordinator->Kill();
    std::this_thread::sleep_for(std::chrono::duration<double>(down));
    const double away = ToSeconds(Now() - killed);
    coordinator->Start();
    if (!ranks.Advance(20)) break;
    beyond.push_back(ranks.LongestPause(killed) - away);
  }
  EXPECT_EQ(beyond.size(), downtimes.size());
  if (beyond.empty()) return {};
  std::printf(
      "%s: %zu kills of the coordinator, pause beyond its absence: median %.3f s, longest "
      "%.3f s\n",
      what, beyond.size(), MedianOf(beyond), *std::max_element(beyond.begin(), beyond.end()));
  return ranks.epochs();
}

// Reducers are elsewhere, or there are none: nothing but the coordinator dies.
TEST(ReattachServer, RanksTrainOnInTheSameEpochWhenTheCoordinatorComesBack) {
  RestartedCoordinator coordinator({"--servers", "0"});
  EXPECT_EQ(KillAndRestart(&coordinator, "workers", {0, 0.3, 2}).size(), 1u);
}

TEST(ReattachServer, ReducersElsewhereServeOnMeanwhile) {
  RestartedCoordinator coordinator({"--servers", "1", "--no-reducer", "--elastic"});
  ServerOptions options;
  options.insecure = true;
  options.coordinator = coordinator.address();
  StatusOr<std::unique_ptr<Server>> reducer = Server::Start(options);
  ASSERT_TRUE(reducer.ok()) << reducer.status();
  EXPECT_EQ(KillAndRestart(&coordinator, "workers and a reducer", {0, 0.3, 1}).size(), 1u);
  (*reducer)->Stop();
}

// Its process has a reducer in it, so a member dies with it: the ranks go on in another epoch.
TEST(ReattachServer, AReducerThatDiesWithTheCoordinatorEndsTheEpochButNotTheElasticJob) {
  RestartedCoordinator coordinator({"--servers", "1", "--elastic"});
  EXPECT_GT(KillAndRestart(&coordinator, "workers that join again", {0, 0.3}).size(), 1u);
}

TEST(ReattachServerLong, PauseOfManyKills) {
  constexpr int kKills = 100;
  constexpr double kLongestDowntime = 2;
  RestartedCoordinator coordinator({"--servers", "0"});
  Random random(1);
  std::vector<double> downtimes;
  for (int i = 0; i < kKills; ++i) downtimes.push_back(kLongestDowntime * random.Unit());
  EXPECT_EQ(KillAndRestart(&coordinator, "workers", downtimes).size(), 1u);
}

}  // namespace
}  // namespace ringwood
