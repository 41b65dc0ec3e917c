#include "plan/turns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/random.h"
#include "plan/strategy/planner.h"

namespace ringwood {
namespace {

using ::testing::ElementsAre;

TEST(Turns, AGroupOfSeveralTurnsIsCutAndKeepsWhatItHas) {
  const std::vector<TensorSpec> tensors = {
      {"a", 1000, "sparse", 0.01}, {"b", 2000, "sparse", 0.01}, {"c", 3000, "sparse", 0.01}};
  Plan plan;
  plan.groups.push_back(
      {.tensors = {0, 1, 2}, .route = "tree", .density = 0.01, .k = 60, .reason = "merged"});
  const Plan cut = SplitByTurns(plan, tensors, {7, 8, 7});
  ASSERT_EQ(cut.groups.size(), 2u);
  EXPECT_THAT(cut.groups[0].tensors, ElementsAre(0, 2));
  EXPECT_EQ(cut.groups[0].k, 40u);
  EXPECT_THAT(cut.groups[1].tensors, ElementsAre(1));
  EXPECT_EQ(cut.groups[1].k, 20u);
  EXPECT_EQ(cut.groups[1].reason, "merged");
  EXPECT_TRUE(Validate(cut, tensors).ok());
  EXPECT_EQ(SplitByTurns(cut, tensors, {7, 8, 7}), cut);
  EXPECT_EQ(SplitByTurns(plan, tensors, {3, 3, 3}), plan);
}

TEST(Turns, EveryPlanRunsAfterItsCutAndNoGroupHasTwoTurns) {
  Random random(1);
  for (int trial = 0; trial < 50; ++trial) {
    PlanInput input;
    input.world = 4;
    std::vector<uint32_t> turns;
    for (uint64_t t = 0; t < 1 + random.Below(40); ++t) {
      input.tensors.push_back({"t" + std::to_string(t), 1 + random.Below(100000),
                               random.Below(2) == 0 ? "dense" : "sparse", 0.01});
      turns.push_back(static_cast<uint32_t>(random.Below(4)));
    }
    const auto plan = MakePlan("hybrid", input);
    ASSERT_TRUE(plan.ok()) << plan.status();
    const Plan cut = SplitByTurns(*plan, input.tensors, turns);
    EXPECT_TRUE(Validate(cut, input.tensors).ok());
    for (const Group& group : cut.groups) {
      std::set<uint32_t> taken;
      for (const uint32_t tensor : group.tensors) taken.insert(turns[tensor]);
      EXPECT_EQ(taken.size(), 1u);
    }
  }
}

}  // namespace
}  // namespace ringwood
