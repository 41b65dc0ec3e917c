// The real coordinator is killed under real ranks, and started again: they train on.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <cstdio>

#include "base/random.h"
#include "ringwood/v1/control.grpc.pb.h"
#include "server/server.h"
#include "tests/cli/rank.h"
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

// That it ended the epoch would be a decision of it; and what a call in flight hears names the
// call.
TEST(ReattachServer, WithoutAGraceEveryRankHearsThatTheCoordinatorIsLost) {
  constexpr int kKills = 5;
  RestartedCoordinator coordinator({"--servers", "0"});
  for (int i = 0; i < kKills; ++i) {
    Rank a(0), b(1);
    StatusOr<v1::JoinResponse> joined = Unavailable("it was not asked yet");
    for (Rank* rank : {&a, &b}) rank->Connect(coordinator.address());
    std::thread other([&] { joined = b.Join(); });
    const auto beside = a.Join();
    other.join();
    ASSERT_TRUE(beside.ok() && joined.ok()) << beside.status() << joined.status();
    ASSERT_TRUE(a.Attend(*beside).ok());
    ASSERT_TRUE(b.Attend(*joined).ok());
    Status waited;
    std::thread agrees([&] { waited = b.Agree({}, joined->epoch()).status(); });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // it is on its way
    coordinator.Kill();
    agrees.join();
    for (const Status& heard : {a.Failure(), b.Failure(), waited}) {
      EXPECT_NE(Message(heard).find(" is lost: "), std::string::npos) << heard;
    }
    for (Rank* rank : {&a, &b}) rank->Disappear();
    coordinator.Start();
  }
}

// Whether rank 1 comes to wait there for others.
bool WaitsAt(const std::string& address) {
  const auto stub =
      v1::Coordinator::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  const TimePoint end = Now() + Seconds(Rank::kSeconds);
  v1::StatusResponse status;
  while (status.first_waiting() != 1 && Now() < end) {
    grpc::ClientContext context;
    if (!stub->Status(&context, v1::StatusRequest(), &status).ok()) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return status.first_waiting() == 1;
}

// A spare, or a process in the place of a rank that died: it has no part of the job yet.
TEST(ReattachServer, WhoWaitsToJoinLooksForTheCoordinatorToo) {
  RestartedCoordinator coordinator({"--servers", "0", "--elastic"});
  Rank first(0), waits(1);
  StatusOr<v1::JoinResponse> joined = Unavailable("it was not asked yet");
  waits.Connect(coordinator.address());
  std::thread joins([&] { joined = waits.Join(); });
  EXPECT_TRUE(WaitsAt(coordinator.address()));
  coordinator.Kill();
  coordinator.Start();
  first.Connect(coordinator.address());
  const auto beside = first.Join();
  EXPECT_TRUE(beside.ok()) << beside.status();
  joins.join();
  EXPECT_TRUE(joined.ok()) << joined.status();
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
