#include "measure/replay_gradient.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace ringwood {
namespace {

std::vector<float> Gradient(uint64_t seed, int rank, uint64_t step, uint32_t tensor, size_t n) {
  std::vector<float> values(n);
  FillGradient(GradientSeed(seed, rank, step, tensor), values);
  return values;
}

TEST(ReplayGradient, TheSameSeedGivesTheSameValuesAndEveryOtherNameOthers) {
  const std::vector<float> values = Gradient(1, 0, 3, 2, 1001);
  EXPECT_EQ(values, Gradient(1, 0, 3, 2, 1001));
  EXPECT_NE(values, Gradient(2, 0, 3, 2, 1001));
  EXPECT_NE(values, Gradient(1, 1, 3, 2, 1001));
  EXPECT_NE(values, Gradient(1, 0, 4, 2, 1001));
  EXPECT_NE(values, Gradient(1, 0, 3, 1, 1001));
}

TEST(ReplayGradient, ValuesFollowStudentsDistributionWithTwoDegreesOfFreedom) {
  constexpr size_t kCount = 200'000;
  std::vector<float> values = Gradient(7, 0, 0, 0, kCount);
  EXPECT_TRUE(std::all_of(values.begin(), values.end(),
                          [](float x) { return std::isfinite(x) && std::abs(x) < 33; }));
  // P(|T| <= q) = q / sqrt(2 + q*q), of T = x / 1e-3.
  for (const double q : {0.5, 1.0, 3.0, 20.0}) {
    const auto within = std::count_if(values.begin(), values.end(),
                                      [q](float x) { return std::abs(x) <= 1e-3 * q; });
    EXPECT_NEAR(static_cast<double>(within) / kCount, q / std::sqrt(2 + q * q), 0.005) << q;
  }
  EXPECT_NEAR(std::count_if(values.begin(), values.end(), [](float x) { return x > 0; }),
              kCount / 2, kCount / 100);
}

}  // namespace
}  // namespace ringwood
