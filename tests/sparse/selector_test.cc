#include "sparse/selector.h"

#include <gtest/gtest.h>

#include <cmath>

#include "sparse/accumulate.h"
#include "sparse/sparse_tensor.h"
#include "tests/sparse/samples.h"

namespace ringwood {
namespace {

constexpr Method kMethods[] = {Method::kExact, Method::kThreshold, Method::kGaussian};

TEST(Selector, AnUnknownMethodIsRefusedWithTheKnownOnes) {
  EXPECT_EQ(*ParseMethod("gaussian"), Method::kGaussian);
  const auto method = ParseMethod("random");
  ASSERT_FALSE(method.ok());
  EXPECT_NE(Message(method.status()).find("threshold"), std::string::npos);
}

TEST(Selector, WhatIsPickedIsTheBeginningOfTheOrderAndNeverMoreThanK) {
  for (Method method : kMethods) {
    for (int pattern = 0; pattern < static_cast<int>(Pattern::kCount); ++pattern) {
      for (uint64_t elements : {1, 100, 7001}) {
        SparseOptions options{elements / 40 + 1};
        options.method = method;
        SparseTensor tensor(elements, options);
        for (uint64_t step = 0; step < 12; ++step) {
          std::vector<float> gradient =
              MakeGradient(static_cast<Pattern>(pattern), elements, 0, step);
          // The threshold jumps up, falls back, falls by far.
          const float scale = step == 4 ? 10.0f : step >= 8 ? 0.001f : 1.0f;
          for (float& value : gradient) value *= scale;
          tensor.Accumulate(gradient, 1);
          const Entries picks = tensor.picks();
          ASSERT_LE(picks.size(), options.k);
          std::vector<float> shadow = gradient;
          for (uint64_t i = 0; i < elements; ++i) shadow[i] += tensor.residual()[i];
          EXPECT_EQ(picks, SelectPlain(shadow, picks.size()));
          if (method == Method::kExact || (method == Method::kThreshold && step == 0)) {
            EXPECT_EQ(picks, SelectPlain(shadow, options.k));
          }
          tensor.Commit(std::vector<uint8_t>(picks.size(), 1));
        }
      }
    }
  }
}

std::vector<float> Normal(uint64_t elements, uint64_t seed) {
  Random random(seed);
  std::vector<float> values(elements);
  for (float& value : values) {
    const double radius = std::sqrt(-2 * std::log(1 - random.Unit()));
    value = static_cast<float>(radius * std::cos(6.283185307179586 * random.Unit()));
  }
  return values;
}

TEST(Selector, ThresholdKeepsFindingAboutKUnderErrorFeedback) {
  SparseOptions options{500};
  options.method = Method::kThreshold;
  SparseTensor tensor(50000, options);
  uint64_t sent = 0;
  for (uint64_t step = 0; step < 60; ++step) {
    tensor.Accumulate(Normal(50000, step), 1);
    if (step >= 30) sent += tensor.picks().size();
    tensor.Commit(std::vector<uint8_t>(tensor.picks().size(), 1));
  }
  EXPECT_GE(sent, 30 * 500 * 3 / 4u);
}

TEST(Selector, ThresholdFindsEnoughInTheStepAfterASpike) {
  SparseOptions options{100};
  options.method = Method::kThreshold;
  SparseTensor tensor(10000, options);
  std::vector<float> gradient = Normal(10000, 1);
  for (uint64_t i = 0; i < 100; ++i) gradient[i * 100] = 1e6f;
  tensor.Accumulate(gradient, 1);
  tensor.Commit(std::vector<uint8_t>(tensor.picks().size(), 1));
  for (uint64_t step = 2; step < 6; ++step) {
    tensor.Accumulate(Normal(10000, step), 1);
    EXPECT_GE(tensor.picks().size(), 50u) << step;
    tensor.Commit(std::vector<uint8_t>(tensor.picks().size(), 1));
  }
}

TEST(Selector, WhatAnAbortedStepSawDecidesNothing) {
  for (Method method : kMethods) {
    SparseOptions options{100};
    options.method = method;
    SparseTensor aborted(10000, options), plain(10000, options);
    for (uint64_t step = 0; step < 6; ++step) {
      const std::vector<float> gradient = Normal(10000, step);
      std::vector<float> spike = gradient;
      for (float& value : spike) value *= 1.3f;  // about as many values as the threshold looks for
      aborted.Accumulate(spike, 1);
      aborted.Abort();
      for (SparseTensor* tensor : {&aborted, &plain}) tensor->Accumulate(gradient, 1);
      ASSERT_EQ(aborted.picks(), plain.picks()) << step;
      for (SparseTensor* tensor : {&aborted, &plain}) {
        tensor->Commit(std::vector<uint8_t>(tensor->picks().size(), 1));
      }
    }
  }
}

TEST(Selector, TheFloorRisesAgainWhereMoreCandidatesReachItThanThereIsRoomFor) {
  const uint64_t elements = 40000, k = 50;
  std::vector<float> values(elements, 0.95f);  // a pile just below the threshold
  for (uint64_t i = 0; i < k; ++i) values[elements - 1 - i * 700] = 1;
  const auto selector = MakeSelector(Method::kExact, 0);
  TopK topk(elements, k);
  Entries picks;
  bool above = false;
  for (int step = 0; step < 12; ++step) {
    topk.Restart(selector->Floor());
    Scan(values, &topk);
    selector->Select(values, &topk, &picks);
    ASSERT_EQ(picks.size(), k);
    above |= selector->Floor() > KeyOf(0.95f);
  }
  EXPECT_TRUE(above);
}

TEST(Selector, GaussianFindsAboutKOfNormalValuesAndCorrectsItselfForOthers) {
  for (const bool cubed : {false, true}) {
    SparseOptions options{300};
    options.method = Method::kGaussian;
    SparseTensor tensor(30000, options);
    std::vector<float> gradient = Normal(30000, 7);
    if (cubed) {
      for (float& value : gradient) value *= value * value;
    }
    tensor.Accumulate(gradient, 1);
    EXPECT_GE(tensor.picks().size(), 200u) << cubed;
    EXPECT_LE(tensor.picks().size(), 300u) << cubed;
  }
}

TEST(Selector, GaussianDoesNotStarveWhereItsCorrectionsJumpOverAFlatDistribution) {
  SparseOptions options{300};
  options.method = Method::kGaussian;
  SparseTensor tensor(30000, options);
  for (uint64_t step = 0; step < 6; ++step) {
    tensor.Accumulate(MakeGradient(Pattern::kRandom, 30000, 0, step), 1);
    EXPECT_GE(tensor.picks().size(), 200u) << step;
    tensor.Commit(std::vector<uint8_t>(tensor.picks().size(), 1));
  }
}

TEST(UpperQuantile, IsThatOfTheNormalDistribution) {
  EXPECT_NEAR(UpperQuantile(0.5), 0, 1e-9);
  EXPECT_NEAR(UpperQuantile(0.158655253931457), 1, 1e-9);
  EXPECT_NEAR(UpperQuantile(0.0005), 3.290526731491926, 1e-9);
}

}  // namespace
}  // namespace ringwood
