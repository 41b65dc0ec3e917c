#include "plan/warm_up.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/sparse_groups.h"
#include "plan/strategy/planner.h"
#include "plan/wire.h"

namespace ringwood {
namespace {

Plan PlanOf(const std::vector<TensorSpec>& table, const std::string& planner = "hybrid") {
  PlanInput input;
  input.tensors = table;
  input.world = 4;
  return *MakePlan(planner, input);
}

TEST(WarmUp, AQuarterOfTheStepsIsAStage) {
  std::vector<int> stages;
  for (uint64_t step = 0; step < 10; ++step) stages.push_back(WarmUpStage(step, 8));
  EXPECT_THAT(stages, testing::ElementsAre(0, 0, 1, 1, 2, 2, 3, 3, 4, 4));
  EXPECT_EQ(WarmUpStage(0, 0), kWarmUpStages);
  EXPECT_EQ(WarmUpStage(0, 1), 0);
  EXPECT_EQ(WarmUpStage(1, 1), kWarmUpStages);
}

TEST(WarmUp, AtAThousandthTheDensitiesAreThePublishedOnes) {
  const double published[] = {0.25, 0.0625, 0.015625, 0.004, 0.001};  // Lin et al. 2018, 3.3
  for (int stage = 0; stage <= kWarmUpStages; ++stage) {
    EXPECT_NEAR(WarmUpDensity(stage, 0.001) / published[stage], 1, 0.02) << stage;
  }
}

TEST(WarmUp, DensitiesFallToTheirOwnAndNeverBelow) {
  for (const double own : {1e-6, 0.01, 0.2, 0.25, 0.7, 1.0}) {
    double before = 1;
    for (int stage = 0; stage <= kWarmUpStages; ++stage) {
      const double density = WarmUpDensity(stage, own);
      EXPECT_LE(density, before);
      EXPECT_GE(density, own);
      before = density;
    }
    EXPECT_EQ(before, own);
  }
}

TEST(WarmUp, AStageIsThePlanWithOtherDensitiesAndEveryStageLeadsToEveryOther) {
  const std::vector<TensorSpec> table = {{"a", 1'000'000, "sparse", 0.01},
                                         {"b", 500, "dense", 0.01},
                                         {"c", 3, "sparse", 0.001},
                                         {"d", 4000, "sparse", 0.9}};
  const Plan plan = PlanOf(table);
  for (int from = 0; from <= kWarmUpStages; ++from) {
    const Plan there = AtStage(plan, table, from);
    EXPECT_TRUE(Validate(there, table).ok());
    const auto travelled = FromProto(ToProto(there));
    ASSERT_TRUE(travelled.ok()) << travelled.status();
    EXPECT_EQ(*travelled, there);
    for (int to = 0; to <= kWarmUpStages; ++to) {
      EXPECT_EQ(AtStage(there, table, to), AtStage(plan, table, to));
    }
    for (size_t g = 0; g < plan.groups.size(); ++g) {
      EXPECT_EQ(there.groups[g].route, plan.groups[g].route);
      EXPECT_EQ(there.groups[g].tensors, plan.groups[g].tensors);
      EXPECT_GE(there.groups[g].k, plan.groups[g].k);
    }
  }
  EXPECT_EQ(AtStage(plan, table, kWarmUpStages), plan);
  EXPECT_NE(Hash(AtStage(plan, table, 0)), Hash(plan));
}

TEST(WarmUp, WhereAllIsKeptAtTheEndAllIsKeptInEveryStage) {
  constexpr uint64_t kElements = 1'000'000;
  const std::vector<TensorSpec> table = {{"a", kElements, "sparse", 0.001}};
  const Plan plan = PlanOf(table);  // of 4 workers
  for (int stage = 0; stage <= kWarmUpStages; ++stage) {
    const Plan there = AtStage(plan, table, stage);
    const SparseGroup group = SparseGroupsOf(there, {4, 1}, {kElements})->at(0);
    EXPECT_EQ(group.result_entries(), std::min(kElements, 4 * group.k)) << stage;
  }
}

TEST(WarmUp, ADensityBelowTheOneItFallsToIsRefusedOnTheWire) {
  v1::Plan message = ToProto(PlanOf({{"a", 1000, "sparse", 0.1}}));
  message.mutable_groups(0)->set_final_density(0.5);
  EXPECT_THAT(Message(FromProto(message).status()), testing::HasSubstr("final density"));
}

}  // namespace
}  // namespace ringwood
