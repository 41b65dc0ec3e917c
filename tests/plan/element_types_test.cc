// Tables with float32 and bfloat16: no ring adds up both, and bytes are what they are.
#include <gtest/gtest.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "plan/predict/simulate.h"
#include "plan/strategy/planner.h"
#include "plan/wire.h"

namespace ringwood {
namespace {

// Of every three tensors one stays float32.
PlanInput MixedTypes(uint32_t narrow) {
  PlanInput input;
  input.world = 4;
  input.servers = 1;
  for (int i = 0; i < 12; ++i) {
    TensorSpec tensor{absl::StrCat("t", i), 1000 + 100000 * static_cast<uint64_t>(i % 4), "dense"};
    tensor.element_bytes = i % 3 == 0 ? 4 : narrow;
    input.tensors.push_back(std::move(tensor));
  }
  return input;
}

TEST(ElementTypes, NoGroupOfAnyPlannerHasTwo) {
  const PlanInput input = MixedTypes(2);
  for (const std::string& name : PlannerNames()) {
    SCOPED_TRACE(name);
    const auto plan = MakePlan(name, input);
    ASSERT_TRUE(plan.ok()) << plan.status();
    for (const Group& group : plan->groups) {
      for (const uint32_t t : group.tensors) {
        EXPECT_EQ(input.tensors[t].element_bytes, group.codec == kOwnType ? 2u : 4u);
      }
    }
    EXPECT_TRUE(!CheckRunnable(name).ok() || Validate(*plan, input.tensors).ok());
  }
}

TEST(ElementTypes, APlanThatMixesThemOrMistakesThemIsRefused) {
  const PlanInput input = MixedTypes(2);
  Plan plan = *MakePlan("single", input);
  ASSERT_EQ(plan.groups.size(), 2u);
  Plan swapped = plan;
  std::swap(swapped.groups[0].codec, swapped.groups[1].codec);
  EXPECT_EQ(Validate(swapped, input.tensors).code(), StatusCode::kInvalidArgument);
  Group& first = plan.groups[0];
  const std::vector<uint32_t>& second = plan.groups[1].tensors;
  first.tensors.insert(first.tensors.end(), second.begin(), second.end());
  plan.groups.pop_back();
  EXPECT_EQ(Validate(plan, input.tensors).code(), StatusCode::kInvalidArgument);
}

TEST(ElementTypes, HalfOfTheBytesTakeHalfOfTheTime) {
  PlanInput wide = MixedTypes(4), narrow = MixedTypes(2);
  wide.network.alpha = narrow.network.alpha = 0;  // what is left are bytes
  for (TensorSpec& tensor : narrow.tensors) tensor.element_bytes = 2;
  const auto seconds = [](const PlanInput& input) {
    const Plan plan = *MakePlan("single", input);
    EXPECT_EQ(plan.groups.size(), 1u);
    return plan.groups[0].end_seconds - plan.groups[0].start_seconds;
  };
  EXPECT_DOUBLE_EQ(seconds(narrow) * 2, seconds(wide));
  EXPECT_EQ(DenseBytes(narrow.tensors, {0, 1}) * 2, DenseBytes(wide.tensors, {0, 1}));
}

TEST(ElementTypes, CrossTheWire) {
  TensorSpec tensor{"w", 10, "dense"};
  for (const uint32_t bytes : {4u, 2u}) {
    tensor.element_bytes = bytes;
    const auto read = FromProto(ToProto(tensor));
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read, tensor);
  }
  v1::Tensor message = ToProto(tensor);
  message.set_element_bytes(3);
  EXPECT_EQ(FromProto(message).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace ringwood
