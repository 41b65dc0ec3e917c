#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "paths.h"
#include "plan/model/model_profile.h"
#include "plan/strategy/planner.h"
#include "plan/strategy/problem.h"
#include "plan/strategy/profile_input.h"

namespace ringwood {
namespace {

PlanInput Input(const std::string& model, double beta) {
  const auto profile =
      ReadModelProfile(std::string(RINGWOOD_SOURCE_DIR) + "/data/espresso/" + model);
  EXPECT_TRUE(profile.ok()) << Message(profile.status());
  PlanInput input = InputOf(*profile, 0.001);
  input.world = 8;
  input.network = {1e-4, beta, 0};
  input.selection = {1e-5, 1e-10, 0};
  return input;
}

TEST(Lags, EveryDensityHidesOrIsTheLowestAndTheNextEntryWouldShow) {
  int hidden_anywhere = 0;
  for (const char* model : {"resnet50.csv", "vgg16.csv", "bert.csv"}) {
    for (const double beta : {8e-9, 8e-10}) {
      const PlanInput input = Input(model, beta);
      const Problem problem = MakeProblem(input);
      const Plan plan = *MakePlan("lags", input);
      ASSERT_TRUE(Validate(plan, input.tensors).ok());
      int hidden = 0;
      for (size_t g = 0; g < plan.groups.size(); ++g) {
        const Group& group = plan.groups[g];
        uint64_t elements = 0;
        for (const uint32_t t : group.tensors) elements += input.tensors[t].elements;
        const uint64_t least = EntriesOf(input.tensors, group.tensors, 0.001);
        if (g + 1 == plan.groups.size()) {
          EXPECT_EQ(group.k, least);
          continue;
        }
        const double next = input.ready_seconds[plan.groups[g + 1].tensors.back()];
        if (group.end_seconds > next) {
          EXPECT_EQ(group.k, least) << model << " group " << g;
        } else {
          ++hidden;
          if (group.k >= elements) continue;
          const double n = static_cast<double>(elements);
          const uint64_t more =
              EntriesOf(input.tensors, group.tensors, std::min(1.0, group.density + 1.0 / n));
          if (group.tensors.size() == 1) {
            EXPECT_EQ(more, group.k + 1);
          }
          EXPECT_GT(group.start_seconds + TreeGroupSeconds(problem, more), next);
        }
      }
      hidden_anywhere += hidden;
    }
  }
  EXPECT_GT(hidden_anywhere, 20);
}

TEST(Lags, AFasterNetworkIsNeverSparserTensorByTensor) {
  // Groups apart enough that none merges: the rule itself, with its backlog.
  PlanInput input;
  input.world = 8;
  for (int t = 0; t < 12; ++t) {
    input.tensors.push_back({absl::StrCat("t", t), 200000u * (1 + t % 4), "auto", 0.001});
    input.ready_seconds.push_back(0.01 * (t + 1));
  }
  std::vector<double> before(12, 0);
  for (const double beta : {1e-6, 1e-7, 3e-8, 1e-8, 3e-9, 1e-9, 1e-10}) {
    input.network = {1e-4, beta, 0};
    const Plan plan = *MakePlan("lags", input);
    std::vector<double> densities(12, 0);
    for (const Group& group : plan.groups) {
      for (const uint32_t t : group.tensors) densities[t] = group.density;
    }
    for (int t = 0; t < 12; ++t) {
      EXPECT_GE(densities[t], before[t]) << "tensor " << t << " at " << beta;
    }
    before = densities;
  }
  EXPECT_GT(before[0], 0.5);
}

TEST(Lags, DensitiesHaveTheUsersLowerBoundAndDenseTensorsTravelRings) {
  PlanInput input = Input("resnet50.csv", 8e-9);
  for (size_t t = 0; t < input.tensors.size(); ++t) {
    input.tensors[t].density = 0.02;
    if (t % 3 == 0) input.tensors[t].route = "dense";
  }
  const Plan plan = *MakePlan("lags", input);
  EXPECT_TRUE(Validate(plan, input.tensors).ok()) << Message(Validate(plan, input.tensors));
  size_t dense = 0;
  for (const Group& group : plan.groups) {
    if (group.route == "tree") {
      EXPECT_GE(group.density, 0.02);
    } else {
      dense += group.tensors.size();
    }
  }
  EXPECT_EQ(dense, (input.tensors.size() + 2) / 3);
}

TEST(Lags, ABacklogMakesTheNextTensorSparser) {
  PlanInput input;
  input.world = 4;
  input.keep = 1;
  input.network = {1e-5, 1e-8, 0};
  input.selection = {};
  input.tensors = {
      {"a", 1000000, "auto", 0.001}, {"b", 1000000, "auto", 0.001}, {"c", 1000000, "auto", 0.001}};
  input.ready_seconds = {0.000, 0.010, 0.020};
  const Plan free = *MakePlan("lags", input);
  input.tensors[0].elements = 30000000;  // cannot hide even at the highest ratio
  const Plan behind = *MakePlan("lags", input);
  ASSERT_EQ(free.groups.size(), 3u);
  ASSERT_EQ(behind.groups.size(), 3u);
  EXPECT_LT(behind.groups[1].density, free.groups[1].density);
}

// All of them in one message, which is weighed anew with each: the sums of a group are kept.
TEST(Lags, AHundredThousandTensorsAreOneMessage) {
  PlanInput input;
  input.world = 4;
  uint64_t entries = 0;
  for (uint64_t t = 0; t < 100'000; ++t) {
    input.tensors.push_back({absl::StrCat("t", t), 1 + t % 977, "auto", t < 7 ? 0.001 : 0.002});
    input.ready_seconds.push_back(1e-6 * static_cast<double>(t));
    entries += EntriesOf(0.002, 1 + t % 977);
  }
  const Plan plan = *MakePlan("lags", input);
  EXPECT_TRUE(Validate(plan, input.tensors).ok()) << Message(Validate(plan, input.tensors));
  ASSERT_EQ(plan.groups.size(), 1u);
  EXPECT_EQ(plan.groups[0].density, 0.002);
  EXPECT_EQ(plan.groups[0].k, entries);
}

}  // namespace
}  // namespace ringwood
