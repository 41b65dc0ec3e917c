// The bodies of the device's kernels, run by an emulation of its threads, against the CPU's plain
// selection: the same picks and the same residuals to the bit.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/sparse/emulated_group.h"

namespace ringwood {
namespace {

// With `momentum` every second tensor has some.
void RunSteps(std::vector<TensorShape> shapes, bool momentum, uint32_t blocks, int kind,
              int steps) {
  for (size_t t = 0; momentum && t < shapes.size(); t += 2) shapes[t].momentum = 0.9f - 0.1f * t;
  EmulatedGroup device(shapes, blocks);
  std::vector<Plain> plain;
  for (const TensorShape& shape : shapes) plain.emplace_back(shape);
  Random random(kind + 1);
  for (int step = 0; step < steps; ++step) {
    // The threshold jumps up and down, so that guesses fail in both directions.
    const cuda::Scale scale{step % 4 == 2   ? 10.0f
                            : step % 4 == 3 ? 0.1f
                                            : 1.5f,
                            step % 2 ? 1.0f : 0.5f};
    std::vector<std::vector<float>> gradients;
    std::vector<const float*> pointers;
    for (const TensorShape& shape : shapes) {
      gradients.push_back(Gradient(shape.elements + 1, kind, step + 1));
      pointers.push_back(gradients.back().data() + step % 2);
    }
    device.Step(pointers, scale);
    std::vector<float> sent = device.pick_values();
    std::vector<uint8_t> accepted(device.layout().picks);
    for (auto& bit : accepted) bit = random.Below(3) != 0;
    for (size_t t = 0; t < shapes.size(); ++t) {
      SCOPED_TRACE(absl::StrFormat("kind %d, step %d, tensor %d of %d elements, k %d", kind, step,
                                   t, shapes[t].elements, shapes[t].k));
      const Entries expected = plain[t].Step(pointers[t], scale);
      ASSERT_EQ(device.Picks(t), expected);
      ASSERT_TRUE(SameBits(device.Shadow(t), plain[t].shadow));
      const uint32_t first = device.layout().tensors[t].first_pick;
      for (size_t j = 0; j < expected.size(); ++j) {
        sent[first + j] *= 0.75f;  // as if a value code had rounded
        if (accepted[first + j] == 0) continue;
        plain[t].shadow[expected.index[j]] -= sent[first + j];
        if (shapes[t].momentum != 0) plain[t].momentum_shadow[expected.index[j]] = 0;
      }
      plain[t].residual.swap(plain[t].shadow);
      plain[t].momentum.swap(plain[t].momentum_shadow);
    }
    device.Commit(sent, accepted);
    for (size_t t = 0; t < shapes.size(); ++t) {
      ASSERT_TRUE(SameBits(device.Residual(t), plain[t].residual));
      if (shapes[t].momentum != 0) {
        ASSERT_TRUE(SameBits(device.Momentum(t), plain[t].momentum));
      }
    }
  }
}

TEST(CudaSelect, PicksAndResidualsEqualThePlainOnesToTheBit) {
  const std::vector<TensorShape> shapes = {{1, 1}, {4097, 4097}, {9001, 90}, {130, 2}, {8192, 800}};
  for (int kind = 0; kind < kKinds; ++kind) RunSteps(shapes, kind % 2 == 1, 2, kind, 4);
}

TEST(CudaSelect, TheNumberOfBlocksDoesNotMatter) {
  for (uint32_t blocks : {1, 2, 5}) RunSteps({{12289, 100}, {70, 7}}, false, blocks, kKinds - 1, 3);
}

TEST(CudaSelect, AGoodGuessReadsTheListAndABadOneTheWholeResidual) {
  EmulatedGroup device({{40000, 100}}, 2);
  uint32_t dense = 0;
  for (int step = 0; step < 6; ++step) {
    const auto gradient = Gradient(40000, kKinds - 1, step + 1);
    const bool jump = step == 4;
    // Momentum of nothing, no memory of the last step: every step is a fresh, equal distribution.
    device.Step({gradient.data()}, {jump ? 0.001f : 1.0f, 0});
    ASSERT_EQ(device.outcome(0).picked, 100u);
    if (step == 0 || jump) {
      EXPECT_EQ(device.outcome(0).dense, 1u) << step;  // no guess yet; a guess far too high
    } else if (step < 4) {
      dense += device.outcome(0).dense;
    }
    device.Commit(device.pick_values(), std::vector<uint8_t>(100));
  }
  EXPECT_LE(dense, 1u);
}

TEST(CudaSelect, NonFiniteValuesAreAcceptedAndNeverPicked) {
  EmulatedGroup device({{10000, 50}, {100, 100}}, 2);
  auto first = Gradient(10000, kKinds - 1, 1), second = Gradient(100, kKinds - 1, 2);
  first[17] = std::numeric_limits<float>::infinity();
  first[9000] = -std::numeric_limits<float>::infinity();
  second[99] = std::numeric_limits<float>::quiet_NaN();
  for (int step = 0; step < 2; ++step) {  // cold, then with a floor; not committed
    device.Step({first.data(), second.data()}, {1, 1});
    EXPECT_EQ(device.outcome(0).nonfinite, 2u);
    EXPECT_EQ(device.outcome(1).nonfinite, 1u);
    EXPECT_EQ(device.outcome(0).picked, 50u);
    EXPECT_EQ(device.outcome(1).picked, 99u);
    for (size_t t : {0, 1}) {
      for (float value : device.Picks(t).value) EXPECT_TRUE(std::isfinite(value));
    }
  }
}

TEST(CudaSelect, WithWeightZeroTheGradientIsNotReadAndTheMomentumGoesOn) {
  const std::vector<TensorShape> shapes = {{5001, 50, 0.5f}, {130, 13}};
  EmulatedGroup device(shapes, 2);
  std::vector<Plain> plain(shapes.begin(), shapes.end());
  const std::vector<float> nothing(5002, std::numeric_limits<float>::quiet_NaN()), zeros(5002);
  for (int step = 0; step < 4; ++step) {
    const float weight = step % 2 == 0 ? 2.0f : 0.0f;
    const auto gradient = Gradient(5002, kKinds - 1, step + 1);
    const float* const given = (weight == 0 ? nothing : gradient).data() + step / 2;
    const float* const meant = (weight == 0 ? zeros : gradient).data() + step / 2;
    device.Step({given, given}, {weight, 1});
    for (size_t t = 0; t < shapes.size(); ++t) {
      ASSERT_EQ(device.Picks(t), plain[t].Step(meant, {weight, 1})) << step;
      ASSERT_TRUE(SameBits(device.Shadow(t), plain[t].shadow));
      plain[t].residual.swap(plain[t].shadow);
      plain[t].momentum.swap(plain[t].momentum_shadow);
    }
    device.Commit(device.pick_values(), std::vector<uint8_t>(device.layout().picks));
  }
}

TEST(CudaSelect, WithoutMaskingTheMomentumOutlivesItsPick) {
  for (const bool masking : {true, false}) {
    EmulatedGroup device({{100, 1, 0.5f}}, 1);
    std::vector<float> gradient(100);
    gradient[7] = 8;
    device.Step({gradient.data()}, {1, 1});
    device.Commit(device.pick_values(), {1}, masking);
    EXPECT_EQ(device.Residual(0)[7], 0);
    EXPECT_EQ(device.Momentum(0)[7], masking ? 0 : 8);
  }
}

TEST(CudaSelect, APickThatIsRoundedToZeroKeepsItsMomentum) {
  EmulatedGroup device({{100, 2, 0.5f}}, 1);
  std::vector<float> gradient(100);
  gradient[7] = 8;
  gradient[9] = 0.25f;
  device.Step({gradient.data()}, {1, 1});
  device.Commit({8, 0}, {1, 1});
  EXPECT_EQ(device.Momentum(0)[7], 0);
  EXPECT_EQ(device.Momentum(0)[9], 0.25f);
  EXPECT_EQ(device.Residual(0)[9], 0.25f);
}

TEST(CudaSelect, TheFloorRisesAgainWhereMoreCandidatesReachItThanThereIsRoomFor) {
  const uint64_t elements = 40000, k = 50;
  EmulatedGroup device({{elements, k}}, 2);
  std::vector<float> gradient(elements, 0.95f);  // a pile just below the threshold
  for (uint64_t i = 0; i < k; ++i) gradient[i * 700] = 1;
  int lists = 0;  // steps that selected from the list of candidates
  for (int step = 0; step < 12; ++step) {
    device.Step({gradient.data()}, {1, 1});
    EXPECT_EQ(device.outcome(0).picked, k);
    lists += device.outcome(0).dense == 0 ? 1 : 0;
  }
  EXPECT_GT(lists, 0);
}

TEST(CudaSelect, AGroupBeyondThirtyTwoBitsIsRefused) {
  EXPECT_EQ(cuda::LayOut({{uint64_t{1} << 32, 10}}).status().code(),
            StatusCode::kResourceExhausted);
  EXPECT_EQ(cuda::LayOut({{UINT32_MAX, UINT32_MAX}, {100, 10}}).status().code(),
            StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace ringwood
