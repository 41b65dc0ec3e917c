#include "plan/planner.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/random.h"
#include "plan/lane.h"
#include "plan/wire.h"

namespace ringwood {
namespace {

PlanInput SmallNetwork() {
  PlanInput input;
  input.world = 4;
  for (int i = 0; i < 6; ++i) {
    input.tensors.push_back({"bias" + std::to_string(i), 64, "auto", 0.01});
    input.tensors.push_back({"weight" + std::to_string(i), 400000, "auto", 0.01});
  }
  return input;
}

TEST(Planner, EntriesAreRoundedAndAtLeastOne) {
  EXPECT_EQ(EntriesOf(0.01, 149), 1u);
  EXPECT_EQ(EntriesOf(0.01, 151), 2u);
  EXPECT_EQ(EntriesOf(1e-9, 10), 1u);
  EXPECT_EQ(EntriesOf(1, 10), 10u);
  EXPECT_EQ(EntriesOf(2, 10), 10u);
}

TEST(Planner, EveryPlannerPutsEveryTensorInOneGroup) {
  const PlanInput input = SmallNetwork();
  for (const std::string& name : PlannerNames()) {
    const auto plan = MakePlan(name, input);
    ASSERT_TRUE(plan.ok()) << Message(plan.status());
    EXPECT_EQ(plan->planner, name);
    for (const Group& group : plan->groups) EXPECT_FALSE(group.reason.empty());
    if (name == "dear") continue;  // two groups a tensor, for the model only
    const Status valid = Validate(*plan, input.tensors);
    EXPECT_TRUE(valid.ok()) << Message(valid);
    EXPECT_EQ(Hash(*plan), Hash(*MakePlan(name, input)));
  }
}

TEST(Planner, HybridSendsLargeTensorsUpTheTreeAndMergesSmallOnes) {
  const auto plan = MakePlan("hybrid", SmallNetwork());
  ASSERT_TRUE(plan.ok());
  size_t tree = 0;
  for (const Group& group : plan->groups) {
    if (group.route == "tree") {
      ++tree;
      EXPECT_EQ(group.k, 4000u);
    } else {
      EXPECT_EQ(group.k, 0u);
    }
  }
  EXPECT_EQ(tree, 6u);
}

TEST(Planner, HybridKeepsTheUsersRoutes) {
  PlanInput input = SmallNetwork();
  for (TensorSpec& tensor : input.tensors) tensor.route = "dense";
  input.tensors[0].route = "sparse";
  const auto plan = MakePlan("hybrid", input);
  ASSERT_TRUE(plan.ok());
  EXPECT_TRUE(Validate(*plan, input.tensors).ok());
}

TEST(Planner, OneWorkerAndAnEmptyTableWork) {
  PlanInput input = SmallNetwork();
  input.world = 1;
  input.servers = 0;
  EXPECT_TRUE(MakePlan("hybrid", input).ok());
  input.tensors.clear();
  EXPECT_TRUE(MakePlan("hybrid", input)->groups.empty());
}

TEST(Planner, WorkersThatShareACardMakeDenseGroupsCheaper) {
  PlanInput input = SmallNetwork();
  input.world = 8;
  const double ring = MakePlan("exact", input)->predicted_seconds;
  input.hosts = EvenHosts(8, 4);
  const double hierarchy = MakePlan("exact", input)->predicted_seconds;
  EXPECT_GT(ring / hierarchy, 1.5);
  input.hosts = OneEach(8);
  EXPECT_EQ(MakePlan("exact", input)->predicted_seconds, ring);
}

TEST(Planner, BadInputIsNamed) {
  PlanInput input = SmallNetwork();
  EXPECT_NE(Message(MakePlan("nonsense", input).status()).find("exact"), std::string::npos);
  input.tensors[3].elements = 0;
  EXPECT_NE(Message(MakePlan("exact", input).status()).find("weight1"), std::string::npos);
  input = SmallNetwork();
  input.hosts = {{0, 1}, {2}};  // of four workers
  EXPECT_NE(Message(MakePlan("exact", input).status()).find("host"), std::string::npos);
  input = SmallNetwork();
  input.ready_seconds.assign(input.tensors.size(), 1);
  input.ready_seconds[4] = 0.5;
  EXPECT_EQ(MakePlan("exact", input).status().code(), StatusCode::kInvalidArgument);
  input.ready_seconds[4] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(MakePlan("exact", input).status().code(), StatusCode::kInvalidArgument);
}

TEST(PlanWire, RoundTripKeepsTheValueAndTheHash) {
  const PlanInput input = SmallNetwork();
  const Plan plan = *MakePlan("hybrid", input);
  const auto back = FromProto(ToProto(plan));
  ASSERT_TRUE(back.ok()) << Message(back.status());
  EXPECT_EQ(*back, plan);
  EXPECT_EQ(*FromProto(ToProto(input.tensors[1])), input.tensors[1]);
}

TEST(PlanWire, HostileMessagesAreErrors) {
  const v1::Plan good = ToProto(*MakePlan("hybrid", SmallNetwork()));
  v1::Plan message = good;
  message.mutable_groups(0)->set_density(0.5);
  EXPECT_EQ(FromProto(message).status().code(), StatusCode::kDataLoss);
  message = good;
  message.mutable_groups(0)->set_density(std::numeric_limits<double>::quiet_NaN());
  EXPECT_FALSE(FromProto(message).ok());
  message = good;
  message.mutable_groups(0)->clear_tensors();
  EXPECT_FALSE(FromProto(message).ok());
  message = good;
  message.mutable_groups(0)->set_route("teleport");
  EXPECT_FALSE(FromProto(message).ok());
  v1::Tensor tensor;
  EXPECT_FALSE(FromProto(tensor).ok());
}

}  // namespace
}  // namespace ringwood
