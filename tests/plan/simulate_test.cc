#include "plan/predict/simulate.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "dense/ring.h"
#include "plan/model/cost.h"
#include "plan/predict/scaling.h"
#include "plan/strategy/problem.h"
#include "plan/strategy/tree_cost.h"
#include "sparse/tree.h"
#include "sparse/tree_schedule.h"
#include "tests/plan/random_input.h"

namespace ringwood {
namespace {

const Network kNetwork{1e-4, 8e-9, 5e-10};

// Too few messages for chunks: tensors are played whole, as the closed forms have them.
constexpr uint64_t kWholeTensors = 1;

// One play of one chunk, all messages of one length.
Scene SceneOf(const std::vector<Schedule>& schedules, int workers, double message_bytes,
              double ready_seconds = 0) {
  int slots = 1;
  for (const Schedule& schedule : schedules) {
    for (const Step& step : schedule) slots = std::max(slots, step.slot + 1);
  }
  Performance play;
  play.schedules = std::make_shared<const std::vector<Schedule>>(schedules);
  play.slot_bytes = {std::vector<double>(static_cast<size_t>(slots), message_bytes)};
  play.ready_seconds = ready_seconds;
  return {kNetwork, workers, {}, {}, {play}};
}

double EndOf(const std::vector<Schedule>& schedules, int workers, double message_bytes) {
  const auto outcome = Simulate(SceneOf(schedules, workers, message_bytes));
  EXPECT_TRUE(outcome.ok()) << Message(outcome.status());
  return outcome.ok() ? outcome->end_seconds[0] : -1;
}

TEST(Simulate, ARingTakesItsClosedForm) {
  for (int world = 2; world <= 33; ++world) {
    std::vector<Schedule> all(world), scatter(world), gather(world);
    for (int rank = 0; rank < world; ++rank) {
      all[rank] = RingAllReduce(rank, world);
      scatter[rank] = RingReduceScatter(rank, world);
      gather[rank] = RingAllGather(rank, world);
    }
    const double bytes = 1e6;
    const auto expect = [&](const std::vector<Schedule>& schedules, const Cost& cost) {
      EXPECT_NEAR(EndOf(schedules, world, bytes / world), cost.Seconds(bytes),
                  1e-12 * cost.Seconds(bytes) * world);
    };
    expect(all, RingCost(kNetwork, world));
    expect(scatter, RingReduceScatterCost(kNetwork, world));
    expect(gather, RingAllGatherCost(kNetwork, world));
  }
}

// When the last worker has its answer: up as TreeSeconds says; down each reducer serves its
// children in the order of the schedule, first the result, then the accepted bits, which are short.
double TreeEnd(const TreeShape& shape, double bytes) {
  const Tree tree(shape);
  const double wire = kNetwork.beta * bytes, add = kNetwork.gamma * bytes;
  const int nodes = shape.workers + shape.reducers;
  std::vector<double> up(nodes, 0), result(nodes, 0), accepted(nodes, 0);
  for (int node = nodes - 1; node >= shape.workers; --node) {
    std::vector<double> arrivals;
    for (const int child : tree.children(node)) arrivals.push_back(up[child] + kNetwork.alpha);
    std::sort(arrivals.begin(), arrivals.end());
    double nic = 0;
    for (const double arrival : arrivals) {
      nic = std::max(nic, arrival) + wire;
      up[node] = std::max(up[node], nic) + add;
    }
  }
  double last = 0;
  for (int node = shape.workers; node < nodes; ++node) {
    const std::vector<int>& children = tree.children(node);
    if (tree.parent(node) < 0) result[node] = up[node];
    const double sent = result[node] + static_cast<double>(children.size()) * wire;
    for (size_t i = 0; i < children.size(); ++i) {
      const int child = children[(static_cast<size_t>(node) + i) % children.size()];
      result[child] = result[node] + static_cast<double>(i + 1) * wire + kNetwork.alpha;
      accepted[child] = std::max(accepted[node], sent) + kNetwork.alpha;
      last = std::max({last, result[child], accepted[child]});
    }
  }
  return last;
}

double PlayedTree(const TreeShape& shape, double bytes, double result = 1) {
  Scene scene = SceneOf(TreeSchedules(shape, 1), shape.workers, bytes);
  if (shape.reducers > 0) {
    scene.plays[0].slot_bytes[0][NumberOf({TreeSlot::Kind::kAccepted, 0}, 1)] = 0;
    scene.plays[0].slot_bytes[0][NumberOf({TreeSlot::Kind::kResult, 0}, 1)] *= result;
  }
  const auto outcome = Simulate(scene);
  EXPECT_TRUE(outcome.ok()) << Message(outcome.status());
  return outcome.ok() ? outcome->end_seconds[0] : -1;
}

TEST(Simulate, ATreeTakesItsClosedForm) {
  const double bytes = 3e5;
  for (int workers = 2; workers <= 33; ++workers) {
    const double wire = kNetwork.beta * bytes;
    EXPECT_NEAR(PlayedTree({workers, 0}, bytes), kNetwork.alpha + (workers - 1) * wire, 1e-12);
    for (const int reducers : {1, 2, 3, 5, 9}) {
      for (const int fanout : {2, 4, 8}) {
        const TreeShape shape{workers, reducers, fanout};
        const double played = PlayedTree(shape, bytes);
        EXPECT_NEAR(played, TreeEnd(shape, bytes), 1e-12)
            << workers << " workers, " << reducers << " reducers, fan-out " << fanout;
        const double priced = TreeSeconds(kNetwork, workers, reducers, fanout, bytes);
        if (reducers == 1) {
          EXPECT_NEAR(played, priced, 1e-12);
          EXPECT_NEAR(PlayedTree(shape, bytes, 3),
                      TreeSeconds(kNetwork, workers, reducers, fanout, bytes, 3), 1e-12);
        }
        // The price takes the children in another order, and no time for the accepted bits' way.
        EXPECT_LE(played, 1.35 * priced);
        EXPECT_GE(played, 0.6 * priced);
      }
    }
  }
}

// Two hosts of four workers and a reducer; the result has what all workers send.
TEST(Simulate, AHostsReducerSendsOnWhatItsWorkersSent) {
  PlanScene scene;
  scene.workers = 8;
  scene.reducers = 2;
  scene.node_hosts = {0, 0, 0, 0, 1, 1, 1, 1, 0, 1};
  Plan plan;
  plan.fanout = 8;
  plan.groups.push_back({.tensors = {0}, .route = "tree", .k = 10'000, .codec = "block16/fp32"});
  for (const double keep : {1, 3, 8}) {
    plan.groups[0].keep = keep;
    const auto stage = StageOf(scene, plan, {{"t", 4'000'000, "sparse"}}, {0});
    ASSERT_TRUE(stage.ok()) << stage.status();
    const Performance& play = stage->scene.plays.at(0);
    const auto bytes = [&](int from, int to) {
      double sum = 0;
      for (const Step& step : (*play.schedules)[static_cast<size_t>(from)]) {
        if (step.op == Op::kSend && step.peer == to) sum += BytesOf(play, 0, step);
      }
      return sum;
    };
    const double entries = 10'000 * scene.entry_bytes / 2;  // of a worker in one of two ranges
    const double result = keep * entries;
    const double up = std::min(4.0, keep) * entries;
    const double bits = std::min(4.0, keep) * 10'000 / 2 / 8;
    EXPECT_NEAR(bytes(0, 8), 2 * entries, entries / 100);  // for both roots
    EXPECT_NEAR(bytes(8, 9), up + result + bits, up / 50) << keep;
  }
}

TEST(Simulate, AWrongPeerDeadlocksAndIsNamed) {
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < 5; ++rank) schedules.push_back(RingAllReduce(rank, 5));
  for (Step& step : schedules[3]) {
    if (step.op != Op::kSend) {
      step.peer = 1;
      break;
    }
  }
  const auto outcome = Simulate(SceneOf(schedules, 5, 100));
  EXPECT_EQ(outcome.status().code(), StatusCode::kAborted);
  EXPECT_NE(Message(outcome.status()).find("deadlock"), std::string::npos);
  EXPECT_NE(Message(outcome.status()).find("node 3 waits at step 1"), std::string::npos)
      << Message(outcome.status());
}

TEST(Simulate, AWrongSlotIsNamed) {
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < 3; ++rank) schedules.push_back(RingAllReduce(rank, 3));
  schedules[2][0].slot = (schedules[2][0].slot + 1) % 3;
  EXPECT_EQ(Simulate(SceneOf(schedules, 3, 100)).status().code(), StatusCode::kDataLoss);
}

// A node that only sends is through with a play, and perhaps with its lane, without an event.
TEST(Simulate, ANodeThatWaitsForNobodyRunsAllItsChunksAtOnce) {
  const std::vector<Schedule> schedules = {{{Op::kSend, 1, 0}}, {{Op::kReceive, 0, 0}}, {}};
  const double bytes = 1e5, wire = kNetwork.beta * bytes;
  for (const size_t plays : {1, 2}) {
    for (const size_t chunks : {1, 3, 9}) {
      Scene scene = SceneOf(schedules, 3, bytes);
      scene.plays[0].slot_bytes.resize(chunks, scene.plays[0].slot_bytes[0]);
      scene.plays.resize(plays, scene.plays[0]);
      const auto outcome = Simulate(scene);
      ASSERT_TRUE(outcome.ok()) << Message(outcome.status());
      const double messages = static_cast<double>(plays * chunks);
      EXPECT_EQ(outcome->messages, plays * chunks);
      EXPECT_EQ(outcome->node_end_seconds[0], 0);
      EXPECT_NEAR(outcome->node_end_seconds[1], kNetwork.alpha + messages * wire, 1e-12);
      EXPECT_EQ(outcome->node_end_seconds[2], 0);
    }
  }
}

TEST(Simulate, AMessageThatNobodyAwaitsIsNamed) {
  const auto outcome = Simulate(SceneOf({{}, {{Op::kSend, 0, 0}}}, 2, 100));
  EXPECT_EQ(outcome.status().code(), StatusCode::kDataLoss);
  EXPECT_NE(Message(outcome.status()).find("node 0 never receives a message of node 1"),
            std::string::npos)
      << Message(outcome.status());
}

TEST(Simulate, AStragglerAndASlowLinkDelayEveryone) {
  const int world = 6;
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < world; ++rank) schedules.push_back(RingAllReduce(rank, world));
  const auto end = [&](std::vector<NodeSpeed> speeds) {
    Scene scene = SceneOf(schedules, world, 1e5, 0.010);
    scene.speeds = std::move(speeds);
    return Simulate(scene)->end_seconds[0];
  };
  const double even = end({});
  EXPECT_NEAR(even, 0.010 + RingCost(kNetwork, world).Seconds(6e5), 1e-9);
  std::vector<NodeSpeed> speeds(world);
  speeds[2].compute = 1.5;
  // Everyone waits for the late one; the stages in which its data is not needed were done
  // meanwhile.
  EXPECT_GT(end(speeds), even);
  EXPECT_LE(end(speeds), even + 0.005 + 1e-9);
  speeds[2] = {1, 1, 2};
  EXPECT_GT(end(speeds), even + 0.9 * (world - 1) * 8e-9 * 1e5);
}

TEST(Simulate, DearAndOmgsTakeWhatTheirPlannersPredict) {
  PlanInput input;
  input.forward_seconds = 0.02;
  for (int t = 0; t < 20; ++t) {
    input.tensors.push_back({absl::StrCat("t", t), 50000u * (t % 5 + 1), "auto", 0.01});
    input.ready_seconds.push_back(0.003 * t);
  }
  for (const char* planner : {"dear", "omgs", "omgs-exact"}) {
    for (const int workers : {2, 5, 8}) {
      const auto point = ScaleTo(workers, planner, input, {}, kWholeTensors);
      ASSERT_TRUE(point.ok()) << Message(point.status());
      // The price of a tree leaves the accepted bits out.
      const double about = std::string(planner) == "dear" ? 1e-9 : 1e-3 * point->predicted_seconds;
      EXPECT_NEAR(point->simulated_seconds, point->predicted_seconds, about) << planner << workers;
      EXPECT_GT(point->exposed_seconds, 0);
    }
  }
}

TEST(Simulate, GroupsFollowEachOtherLikeTheLane) {
  PlanInput input;
  input.world = 7;
  input.servers = 1;
  for (int t = 0; t < 20; ++t) {
    input.tensors.push_back({absl::StrCat("t", t), 35000u * (t % 5 + 1), "auto", 0.01});
    input.ready_seconds.push_back(0.001 * t * (t % 3));
  }
  std::sort(input.ready_seconds.begin(), input.ready_seconds.end());
  for (const char* planner : {"wfbp", "exact", "single", "mgwfbp"}) {
    const Plan plan = *MakePlan(planner, input);
    PlanScene scene;
    scene.network = input.network;
    scene.workers = 7;
    scene.reducers = 1;
    scene.most_messages = kWholeTensors;
    const auto stage = StageOf(scene, plan, input.tensors, input.ready_seconds);
    ASSERT_TRUE(stage.ok()) << Message(stage.status());
    const auto outcome = Simulate(stage->scene);
    ASSERT_TRUE(outcome.ok()) << Message(outcome.status());
    for (size_t g = 0; g < plan.groups.size(); ++g) {
      EXPECT_NEAR(outcome->end_seconds[g], plan.groups[g].end_seconds, 1e-9);
    }
  }
}

// One dense group of `elements` on `hosts`.
StatusOr<Stage> OneGroup(const Hosts& hosts, uint64_t elements,
                         uint64_t most_messages = PlanScene().most_messages) {
  PlanInput input;
  input.world = RanksOf(hosts);
  input.hosts = hosts;
  input.tensors = {{"t", elements, "dense"}};
  input.ready_seconds = {0};
  PlanScene scene;
  scene.workers = input.world;
  scene.hosts = hosts;
  scene.most_messages = most_messages;
  return StageOf(scene, *MakePlan("single", input), input.tensors, input.ready_seconds);
}

constexpr uint64_t kResNet = 25'500'000;  // elements
constexpr double kResNetBytes = 4 * kResNet;

double EndOf(const StatusOr<Stage>& stage) {
  EXPECT_TRUE(stage.ok()) << Message(stage.status());
  if (!stage.ok()) return -1;
  const auto outcome = Simulate(stage->scene);
  EXPECT_TRUE(outcome.ok()) << Message(outcome.status());
  return outcome.ok() ? outcome->end_seconds[0] : -1;
}

// One long sparse group, with a reducer on each host: the plan's price, and the play.
struct Climbed {
  double priced = 0;
  double played = 0;
};
Climbed ClimbOf(const Hosts& hosts, bool gathers) {
  const int servers = static_cast<int>(hosts.size());
  PlanInput input;
  input.world = RanksOf(hosts);
  input.hosts = hosts;
  input.servers = servers;
  input.network = kNetwork;
  input.tensors = {{"t", 50'000'000, "sparse", 0.01}};
  input.ready_seconds = {0};
  input.selection = {};
  if (gathers) input.node_hosts = NodeHostsOf(hosts, servers);
  const Plan plan = *MakePlan("hybrid", input);
  PlanScene scene;
  scene.network = kNetwork;
  scene.workers = input.world;
  scene.reducers = servers;
  scene.hosts = hosts;
  scene.node_hosts = input.node_hosts;
  return {plan.groups[0].end_seconds - plan.groups[0].start_seconds,
          EndOf(StageOf(scene, plan, input.tensors, input.ready_seconds))};
}

// What goes through the memory of a host comes on top.
TEST(Simulate, WhereHostsGatherATreeTakesTheTimeOfOneWorkerAHost) {
  for (const int count : {2, 4, 8}) {
    for (const int ranks : {2, 4, 8}) {
      const Climbed alone = ClimbOf(EvenHosts(count, 1), true);
      const Climbed gathered = ClimbOf(EvenHosts(count * ranks, ranks), true);
      const Climbed each = ClimbOf(EvenHosts(count * ranks, ranks), false);
      SCOPED_TRACE(testing::Message() << count << " hosts of " << ranks);
      for (const Climbed& climbed : {alone, gathered, each}) {
        EXPECT_LT(climbed.played, 1.35 * climbed.priced);
        EXPECT_GT(climbed.played, 0.5 * climbed.priced);  // chunks overlap, which has no price
      }
      EXPECT_LT(gathered.played, 2 * alone.played);
      EXPECT_GT(each.played, 0.6 * ranks * gathered.played);
    }
  }
}

TEST(Simulate, ChunksHideHopsAndAdditionsButNotTheWire) {
  for (const int world : {2, 4, 8, 16}) {
    const double wire = 2.0 * (world - 1) / world * kResNetBytes * Network().beta;
    const double chunks = EndOf(OneGroup(OneEach(world), kResNet));
    const double whole = EndOf(OneGroup(OneEach(world), kResNet, kWholeTensors));
    EXPECT_NEAR(whole, RingCost(Network(), world).Seconds(kResNetBytes), 1e-6) << world;
    EXPECT_LT(chunks, whole) << world;
    EXPECT_GT(chunks, wire) << world;
    EXPECT_LT(chunks, 1.01 * wire) << world;
  }
}

TEST(Simulate, RanksOfAHostShareItsNicAndTakeTheHierarchy) {
  for (const int ranks : {2, 4}) {
    const Hosts hosts = EvenHosts(8, ranks);
    const double seconds = EndOf(OneGroup(hosts, kResNet));
    const double closed = HierarchyCost(Network(), hosts).Seconds(kResNetBytes);
    EXPECT_GT(seconds, 0.95 * closed) << ranks;
    EXPECT_LT(seconds, 1.02 * closed) << ranks;
    // The ring over the same hosts has each NIC carry 2 (P-1)/P of the tensor.
    EXPECT_LT(seconds, 0.9 * EndOf(OneGroup(OneEach(8), kResNet))) << ranks;
  }
}

// A group over several reducers, in index ranges, on hosts of their own.
TEST(Simulate, ASparseGroupTakesWhatItsTreesCostTogether) {
  for (const int servers : {1, 2, 4, 8}) {
    for (const double density : {0.002, 0.01, 0.05}) {
      PlanInput input;
      input.world = 4;
      input.servers = servers;
      input.tensors = {{"t", 8'000'000, "sparse", density}};
      input.ready_seconds = {0};
      input.keep = 1;
      input.selection = {};
      const Plan plan = *MakePlan("exact", input);
      const double played =
          EndOf(StageOf(PlanSceneOf(input), plan, input.tensors, input.ready_seconds));
      const double priced = plan.predicted_seconds;
      EXPECT_LT(played, 1.3 * priced) << servers << " " << density;
      EXPECT_GT(played, 0.4 * priced) << servers << " " << density;
    }
  }
}

TEST(Simulate, ShortGroupsTakeTheSchedulesThatTheEngineChooses) {
  const auto messages = [](uint64_t elements) {
    return Simulate(OneGroup(OneEach(4), elements)->scene)->messages;
  };
  EXPECT_EQ(messages(1024), 4u * 2);      // recursive doubling: two exchanges
  EXPECT_EQ(messages(10'000), 4u * 6);    // direct exchange: 2 (P-1)
  EXPECT_EQ(messages(3), 4u * 2);         // doubling again
  EXPECT_EQ(messages(100'000), 4u * 24);  // a ring in four chunks
}

TEST(Simulate, TooManyMessagesJoinChunksAndSaySo) {
  const auto all = OneGroup(OneEach(4), kResNet);
  EXPECT_EQ(all->joined_chunks, 1u);
  const uint64_t messages = Simulate(all->scene)->messages;
  const auto joined = OneGroup(OneEach(4), kResNet, messages / 3);
  EXPECT_GE(joined->joined_chunks, 3u);
  EXPECT_LE(Simulate(joined->scene)->messages, messages / 3);
  EXPECT_GT(EndOf(joined), EndOf(all));
  ScalingPoint point;
  point.joined_chunks = 4;
  EXPECT_NE(ScalingTable({point}).find("chunks as long as 4 of a job's"), std::string::npos);
}

TEST(Simulate, HostsThatAreNotTheWorkersAreRefused) {
  Scene scene = OneGroup(OneEach(4), 1000)->scene;
  scene.hosts = EvenHosts(3, 1);
  EXPECT_EQ(Simulate(scene).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace ringwood
