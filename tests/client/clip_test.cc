#include "client/exchange/clip.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "base/random.h"

namespace ringwood {
namespace {

std::vector<float> Values(size_t count) {
  Random random(count + 1);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(random.Unit()) - 0.5f;
  return values;
}

TEST(Clip, TheNormIsThatOfThePlainSum) {
  for (const size_t count : {0u, 1u, 7u, 8u, 9u, 1000u, 100'003u}) {
    const std::vector<float> values = Values(count);
    double plain = 0;
    for (const float value : values) plain += static_cast<double>(value) * value;
    EXPECT_NEAR(SquaredNorm(values), plain, 1e-12 * plain) << count;
  }
}

TEST(Clip, AGradientWithinTheLimitKeepsItsWeightToTheBit) {
  const std::vector<float> values = {3, 4};
  EXPECT_EQ(ClippedWeight(values, 0.1f, 5), 0.1f);
  EXPECT_EQ(ClippedWeight(values, 0.1f, 0), 0.1f);
}

TEST(Clip, ALongerOneCountsAsLongAsTheLimit) {
  const std::vector<float> values = Values(4096);
  const float weight = ClippedWeight(values, 8, 0.5);
  EXPECT_NEAR(std::sqrt(SquaredNorm(values)) * weight, 8 * 0.5, 1e-5);
}

TEST(Clip, WhatIsNoNumberPasses) {
  EXPECT_EQ(ClippedWeight(std::vector<float>{1, NAN}, 2, 0.5), 2);
  EXPECT_EQ(ClippedWeight(std::vector<float>{1, INFINITY}, 2, 0.5), 2);
  const float largest = std::numeric_limits<float>::max();
  EXPECT_LT(ClippedWeight(std::vector<float>(100, largest), 2, 0.5), 2);
}

}  // namespace
}  // namespace ringwood
