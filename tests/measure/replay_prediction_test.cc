#include "measure/replay_prediction.h"

#include <gtest/gtest.h>

#include "plan/strategy/problem.h"

namespace ringwood {
namespace {

// A ring that takes 1 ms and 1 us a KB (in multiples of 1000).
ProbeResult Probed() {
  ProbeResult probe;
  probe.fit = {.startup_seconds = 1e-3, .seconds_per_byte = 1e-9};
  probe.medians = {{0, 1e-3}, {1e9, 1e-3 + 1}};
  return probe;
}

ModelProfile ThreeTensors() {
  ModelProfile profile;
  profile.tensors = {{.name = "c", .elements = 250'000, .ready_seconds = 0.000},
                     {.name = "b", .elements = 500'000, .ready_seconds = 0.010},
                     {.name = "a", .elements = 250'000, .ready_seconds = 0.011}};
  return profile;
}

Group Ring(std::vector<uint32_t> tensors) {
  Group group;
  group.tensors = std::move(tensors);
  group.route = "ring";
  return group;
}

double Predict(std::vector<Group> groups, double scale = 1) {
  PredictionInput input;
  input.plan.groups = std::move(groups);
  input.forward_seconds = 0.1 * scale;
  input.scale = scale;
  input.world = 4;
  input.probe = Probed();
  const auto seconds = PredictStep(ThreeTensors(), input);
  EXPECT_TRUE(seconds.ok()) << seconds.status();
  return seconds.value_or(0);
}

TEST(ReplayPrediction, GroupsWaitForTheirGradientsAndForTheRing) {
  // c: 0 .. 2 ms. b: ready at 10 ms, takes 3 ms. a: waits until 13 ms, takes 2 ms.
  EXPECT_NEAR(Predict({Ring({0}), Ring({1}), Ring({2})}), 0.115, 1e-9);
  // One message of 4 MB after the last gradient, at 11 ms.
  EXPECT_NEAR(Predict({Ring({0, 1, 2})}), 0.116, 1e-9);
}

TEST(ReplayPrediction, TheScaleIsOfComputeTimesOnly) {
  EXPECT_NEAR(Predict({Ring({0, 1, 2})}, 10), 1.0 + 0.110 + 0.005, 1e-9);
}

TEST(ReplayPrediction, Bfloat16HalvesTheBytes) {
  Group group = Ring({0, 1, 2});
  group.codec = "bf16";
  EXPECT_NEAR(Predict({group}), 0.111 + 0.003, 1e-9);
}

TEST(ReplayPrediction, ASparseGroupClimbsTheTree) {
  Group tree = Ring({0, 1, 2});
  tree.route = "tree";
  tree.density = 0.001;
  tree.k = 1000;
  const double seconds = Predict({tree});
  EXPECT_GT(seconds, 0.111);
  EXPECT_LT(seconds, 0.116);  // what the ring takes
}

TEST(ReplayPrediction, PackingIsSerialAndTheTailComesLast) {
  PredictionInput input;
  input.plan.groups = {Ring({0}), Ring({1}), Ring({2})};
  input.world = 4;
  input.probe = Probed();
  input.costs = {.pack_seconds_per_element = 2e-8, .tail_seconds = 0.5};
  // b: ready at 10 ms, packed at 20 ms, through at 23 ms. a: ready at 11, packed at 25, through
  // at 27.
  EXPECT_NEAR(PredictStep(ThreeTensors(), input).value(), 0.527, 1e-9);
}

TEST(ReplayPrediction, TheWarmUpsGroupsCorrectTheModelByOneFactor) {
  PredictionInput input;
  input.plan.groups = {Ring({0}), Ring({1}), Ring({2})};  // modelled: 2 + 3 + 2 ms
  input.world = 4;
  input.probe = Probed();
  input.costs = {.ring_seconds = 0.014};
  // b: ready at 10 ms, through at 16 ms. a: through at 20 ms.
  EXPECT_NEAR(PredictStep(ThreeTensors(), input).value(), 0.020, 1e-9);
}

TEST(ReplayPrediction, APlanOfAnotherTableIsRefused) {
  PredictionInput input;
  input.plan.groups = {Ring({3})};
  EXPECT_FALSE(PredictStep(ThreeTensors(), input).ok());
}

}  // namespace
}  // namespace ringwood
