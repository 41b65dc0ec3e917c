#include "plan/predict/simulate.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "dense/ring.h"
#include "plan/model/cost.h"
#include "plan/predict/scaling.h"
#include "plan/strategy/problem.h"
#include "sparse/tree.h"

namespace ringwood {
namespace {

const Network kNetwork{1e-4, 8e-9, 5e-10};

double EndOf(const std::vector<Schedule>& schedules, int workers, double message_bytes,
             const Network& network = kNetwork) {
  const auto outcome = Simulate({network, workers, {}, {{&schedules, message_bytes, 0}}});
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

TEST(Simulate, ATreeTakesItsClosedForm) {
  for (int workers = 2; workers <= 33; ++workers) {
    for (const int reducers : {0, 1, 2, 3, 5, 9}) {
      for (const int fanout : {2, 4, 8}) {
        const std::vector<Schedule> schedules = TreeSchedules({workers, reducers, fanout});
        const double bytes = 3e5;
        const double expected = TreeSeconds(kNetwork, workers, reducers, fanout, bytes);
        EXPECT_NEAR(EndOf(schedules, workers, bytes), expected, 1e-12)
            << workers << " workers, " << reducers << " reducers, fan-out " << fanout;
        if (reducers == 1) {
          EXPECT_NEAR(SparseTreeCost(kNetwork, {workers}).Seconds(bytes), expected, 1e-12);
        }
      }
    }
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
  const auto outcome = Simulate({kNetwork, 5, {}, {{&schedules, 100, 0}}});
  EXPECT_EQ(outcome.status().code(), StatusCode::kAborted);
  EXPECT_NE(Message(outcome.status()).find("deadlock"), std::string::npos);
  EXPECT_NE(Message(outcome.status()).find("node 3 waits at step 1"), std::string::npos)
      << Message(outcome.status());
}

TEST(Simulate, AWrongSlotIsNamed) {
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < 3; ++rank) schedules.push_back(RingAllReduce(rank, 3));
  schedules[2][0].slot = (schedules[2][0].slot + 1) % 3;
  EXPECT_EQ(Simulate({kNetwork, 3, {}, {{&schedules, 100, 0}}}).status().code(),
            StatusCode::kDataLoss);
}

TEST(Simulate, AStragglerAndASlowLinkDelayEveryone) {
  const int world = 6;
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < world; ++rank) schedules.push_back(RingAllReduce(rank, world));
  const auto end = [&](std::vector<NodeSpeed> speeds) {
    return Simulate({kNetwork, world, speeds, {{&schedules, 1e5, 0.010}}})->end_seconds[0];
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
      const auto point = ScaleTo(workers, planner, input, {});
      ASSERT_TRUE(point.ok()) << Message(point.status());
      EXPECT_NEAR(point->simulated_seconds, point->predicted_seconds, 1e-9) << planner << workers;
      EXPECT_GT(point->exposed_seconds, 0);
    }
  }
}

TEST(Simulate, GroupsFollowEachOtherLikeTheLane) {
  PlanInput input;
  input.world = 7;
  input.servers = 1;
  for (int t = 0; t < 20; ++t) {
    input.tensors.push_back({absl::StrCat("t", t), 5000u * (t % 5 + 1), "auto", 0.01});
    input.ready_seconds.push_back(0.001 * t * (t % 3));
  }
  std::sort(input.ready_seconds.begin(), input.ready_seconds.end());
  for (const char* planner : {"wfbp", "exact", "single", "mgwfbp"}) {
    const Plan plan = *MakePlan(planner, input);
    const auto outcome = SimulatePlan({input.network, 7, 1, input.entry_bytes, {}, {}}, plan,
                                      input.tensors, input.ready_seconds);
    ASSERT_TRUE(outcome.ok()) << Message(outcome.status());
    for (size_t g = 0; g < plan.groups.size(); ++g) {
      EXPECT_NEAR(outcome->end_seconds[g], plan.groups[g].end_seconds, 1e-9);
    }
  }
}

}  // namespace
}  // namespace ringwood
