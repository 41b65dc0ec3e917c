#include "client/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "base/random.h"

namespace ringwood {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Plan PlanOfRoutes(std::vector<std::pair<std::string, std::vector<uint32_t>>> groups) {
  Plan plan;
  for (auto& [route, tensors] : groups) {
    Group group;
    group.route = route;
    group.tensors = tensors;
    plan.groups.push_back(group);
  }
  return plan;
}

TEST(Scheduler, AGroupIsCompleteWithItsLastGradient) {
  Scheduler scheduler(PlanOfRoutes({{"ring", {0, 2}}, {"tree", {1}}}), 3);
  scheduler.Begin();
  EXPECT_EQ(*scheduler.Ready(2), -1);
  EXPECT_EQ(*scheduler.Ready(1), 1);
  EXPECT_EQ(*scheduler.Ready(0), 0);
}

TEST(Scheduler, AGradientThatIsReadyTwiceIsAnError) {
  Scheduler scheduler(PlanOfRoutes({{"ring", {0, 1}}}), 2);
  scheduler.Begin();
  ASSERT_TRUE(scheduler.Ready(0).ok());
  EXPECT_EQ(scheduler.Ready(0).status().code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(scheduler.Ready(9).status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(scheduler.Missing(), ElementsAre(1u));
  scheduler.Begin();
  EXPECT_TRUE(scheduler.Ready(0).ok());
}

TEST(Scheduler, ALaneKeepsThePlansOrderWhateverIsPackedFirst) {
  Scheduler scheduler(PlanOfRoutes({{"ring", {0}}, {"ring", {1}}, {"tree", {2}}}), 3, {.ring = 1});
  scheduler.Begin();
  EXPECT_THAT(scheduler.Packed(1), IsEmpty());       // group 0 comes first on its lane
  EXPECT_THAT(scheduler.Packed(2), ElementsAre(2));  // another lane does not wait
  EXPECT_THAT(scheduler.Packed(0), ElementsAre(0));  // one at a time
  EXPECT_THAT(scheduler.Finished(0), ElementsAre(1));
  EXPECT_FALSE(scheduler.Done());
  EXPECT_THAT(scheduler.Finished(1), IsEmpty());
  EXPECT_THAT(scheduler.Finished(2), IsEmpty());
  EXPECT_TRUE(scheduler.Done());
}

TEST(Scheduler, AWindowLetsThatManyGroupsRun) {
  Scheduler scheduler(PlanOfRoutes({{"tree", {0}}, {"tree", {1}}, {"tree", {2}}}), 3, {.tree = 2});
  scheduler.Begin();
  scheduler.Packed(1);
  EXPECT_THAT(scheduler.Packed(0), ElementsAre(0, 1));
  EXPECT_THAT(scheduler.Packed(2), IsEmpty());
  EXPECT_THAT(scheduler.Finished(1), ElementsAre(2));
}

TEST(Scheduler, EachLaneHasAWindowOfItsOwn) {
  Scheduler scheduler(
      PlanOfRoutes({{"ring", {0}}, {"tree", {1}}, {"ring", {2}}, {"tree", {3}}, {"tree", {4}}}), 5,
      {.ring = 1, .tree = 2});
  scheduler.Begin();
  EXPECT_THAT(scheduler.Packed(0), ElementsAre(0));
  EXPECT_THAT(scheduler.Packed(1), ElementsAre(1));
  EXPECT_THAT(scheduler.Packed(2), IsEmpty());
  EXPECT_THAT(scheduler.Packed(3), ElementsAre(3));
  EXPECT_THAT(scheduler.Packed(4), IsEmpty());
  EXPECT_THAT(scheduler.Finished(0), ElementsAre(2));
  EXPECT_THAT(scheduler.Finished(3), ElementsAre(4));
}

// Any order of events: every group starts once, each lane in plan order, and the round ends.
TEST(Scheduler, EveryOrderOfEventsEndsWithEveryGroupOnceInPlanOrder) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Random random(seed);
    const uint32_t tensors = 1 + random.Below(12);
    std::vector<std::pair<std::string, std::vector<uint32_t>>> groups;
    for (uint32_t t = 0; t < tensors; ++t) {
      if (groups.empty() || random.Below(2) == 0)
        groups.push_back({random.Below(2) ? "ring" : "tree", {}});
      groups.back().second.push_back(t);
    }
    const Plan plan = PlanOfRoutes(groups);
    const LaneWindows windows{.ring = 1 + static_cast<int>(random.Below(3)),
                              .tree = 1 + static_cast<int>(random.Below(3))};
    Scheduler scheduler(plan, tensors, windows);
    scheduler.Begin();
    std::vector<uint32_t> order(tensors);
    std::iota(order.begin(), order.end(), 0u);
    for (size_t i = tensors; i > 1; --i) std::swap(order[i - 1], order[random.Below(i)]);
    std::vector<int> to_pack, running, started;
    const auto start = [&](const std::vector<int>& now) {
      running.insert(running.end(), now.begin(), now.end());
      started.insert(started.end(), now.begin(), now.end());
    };
    const auto take = [&](std::vector<int>* from) {
      const size_t at = random.Below(from->size());
      const int group = (*from)[at];
      from->erase(from->begin() + at);
      return group;
    };
    while (!scheduler.Done()) {
      const uint64_t event = random.Below(3);
      if (event == 0 && !order.empty()) {
        const int group = *scheduler.Ready(order.back());
        order.pop_back();
        if (group >= 0) to_pack.push_back(group);
      } else if (event == 1 && !to_pack.empty()) {
        start(scheduler.Packed(take(&to_pack)));
      } else if (event == 2 && !running.empty()) {
        start(scheduler.Finished(take(&running)));
      } else if (order.empty() && to_pack.empty()) {
        ASSERT_FALSE(running.empty()) << "stuck with seed " << seed;
      }
    }
    ASSERT_EQ(started.size(), plan.groups.size());
    for (const std::string route : {"ring", "tree"}) {
      std::vector<int> lane;
      for (int group : started) {
        if (plan.groups[group].route == route) lane.push_back(group);
      }
      EXPECT_TRUE(std::is_sorted(lane.begin(), lane.end())) << "seed " << seed;
    }
  }
}

TEST(Scheduler, APlanThatDoesNotFitTheTableIsRefused) {
  EXPECT_THAT(Message(Scheduler::Check(PlanOfRoutes({{"ring", {0}}}), 2)),
              HasSubstr("leaves out tensor 1"));
  EXPECT_THAT(Message(Scheduler::Check(PlanOfRoutes({{"ring", {0, 0}}}), 1)),
              HasSubstr("in two groups"));
  EXPECT_THAT(Message(Scheduler::Check(PlanOfRoutes({{"ring", {5}}}), 1)),
              HasSubstr("not registered"));
  EXPECT_THAT(Message(Scheduler::Check(PlanOfRoutes({{"star", {0}}}), 1)),
              HasSubstr("unknown route"));
  EXPECT_THAT(Message(Scheduler::Check(PlanOfRoutes({{"ring", {}}}), 0)), HasSubstr("empty"));
}

}  // namespace
}  // namespace ringwood
