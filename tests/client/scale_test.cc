#include "client/exchange/scale.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>
#include <vector>

#include "base/buffer.h"
#include "base/random.h"
#include "client/exchange/clip.h"
#include "dense/arithmetic/half.h"

namespace ringwood {
namespace {

// Short ones and long ones, which go past the cache, wherever their memory begins.
TEST(Scale, MultipliesAndDividesLikeThePlainLoop) {
  Random random(7);
  for (const size_t count : {0, 1, 15, 1001, 300'007}) {
    std::vector<float> in(count);
    for (float& value : in) value = static_cast<float>(random.Unit() * 200 - 100);
    for (size_t at = 0; at < 18; ++at) {
      Buffer<float> memory(at + count + 1);
      memory[at + count] = 42;
      const std::span<float> out = memory.span().subspan(at, count);
      EXPECT_FALSE(ScaleInto(in, 3, 4, out));
      for (size_t i = 0; i < count; ++i) ASSERT_EQ(out[i], 3 * in[i]) << i << " of " << count;
      DivideInto(in, 7, out);
      for (size_t i = 0; i < count; ++i) ASSERT_EQ(out[i], in[i] / 7) << i << " of " << count;
      EXPECT_EQ(memory[at + count], 42);
    }
  }
}

TEST(Scale, BFloat16IsWidenedAndRoundedOnce) {
  Random random(3);
  for (const size_t count : {0, 1, 15, 1001}) {
    std::vector<uint16_t> in(count), out(count);
    for (uint16_t& value : in) value = ToBFloat16(static_cast<float>(random.Unit() * 200 - 100));
    EXPECT_FALSE(ScaleInto(std::span<const uint16_t>(in), 0.3f, 4, out));
    for (size_t i = 0; i < count; ++i) ASSERT_EQ(out[i], ToBFloat16(0.3f * FromBFloat16(in[i])));
    std::vector<float> wide(count);
    std::ranges::transform(in, wide.begin(), FromBFloat16);
    std::vector<uint16_t> narrowed(count);
    EXPECT_FALSE(ScaleInto(wide, 0.3f, 4, narrowed));
    EXPECT_EQ(narrowed, out);
    for (const double total : {7.0, 0.7, 0.0}) {
      DivideInto(std::span<const uint16_t>(in), total, out);
      DivideInto(wide, total, wide);
      for (size_t i = 0; i < count; ++i) ASSERT_EQ(out[i], ToBFloat16(wide[i])) << total;
      std::ranges::transform(in, wide.begin(), FromBFloat16);
    }
  }
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(),
                          -std::numeric_limits<float>::infinity(), FLT_MAX / 2}) {
    for (const size_t at : {0u, 17u, 99u}) {
      std::vector<uint16_t> in(100, ToBFloat16(1)), out(100);
      in[at] = ToBFloat16(bad);
      EXPECT_TRUE(ScaleInto(std::span<const uint16_t>(in), 1, 4, out)) << bad << " at " << at;
      EXPECT_EQ(Overflows(std::span<const uint16_t>(in), 1), !std::isfinite(bad));
    }
  }
}

TEST(Scale, FindsEveryValueThatCannotBeSummed) {
  for (float bad :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::quiet_NaN(),
        std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
        FLT_MAX / 2, -FLT_MAX / 2}) {
    for (size_t at : {0u, 17u, 99u}) {
      std::vector<float> in(100, 1.0f), out(100);
      in[at] = bad;
      EXPECT_TRUE(ScaleInto(in, 1, 4, out)) << bad << " at " << at;
    }
  }
  std::vector<float> in(100, FLT_MAX / 8), out(100);
  EXPECT_FALSE(ScaleInto(in, 1, 4, out));
}

// With 10, 18, 20 ranks and many other numbers FLT_MAX / world is too much: its sum rounds up to
// Inf.
TEST(Scale, WhatPassesAddsUpToAFiniteSum) {
  for (int world = 1; world <= 1024; ++world) {
    float value = FLT_MAX / static_cast<float>(world), out = 0;
    while (ScaleInto({&value, 1}, 1, world, {&out, 1})) value /= 2;
    float sum = 0;
    for (int rank = 0; rank < world; ++rank) sum += value;
    ASSERT_TRUE(std::isfinite(sum)) << world << " ranks of " << value;
  }
}

TEST(Scale, AWeightOfZeroMakesZerosOfAnything) {
  std::vector<float> in(10, std::numeric_limits<float>::quiet_NaN()), out(10, 1.0f);
  EXPECT_FALSE(ScaleInto(in, 0, 4, out));
  for (float value : out) EXPECT_EQ(value, 0.0f);
}

TEST(Scale, DividesWithCorrectRounding) {
  Random random(9);
  std::vector<float> sum(1000), out(1000);
  for (float& value : sum) value = static_cast<float>(random.Unit() * 2e6 - 1e6);
  for (double total : {1.0, 3.0, 7.0, 127.0, 0.1, 16777217.0}) {
    DivideInto(sum, total, out);
    for (size_t i = 0; i < sum.size(); ++i) {
      EXPECT_EQ(out[i], static_cast<float>(static_cast<double>(sum[i]) / total));
    }
  }
  DivideInto(sum, 0, out);
  for (float value : out) EXPECT_EQ(value, 0.0f);
}

std::vector<float> ScaleValues(size_t count) {
  Random random(count + 1);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(random.Unit()) - 0.5f;
  return values;
}

TEST(Clip, TheNormIsThatOfThePlainSum) {
  for (const size_t count : {0u, 1u, 7u, 8u, 9u, 1000u, 100'003u}) {
    const std::vector<float> values = ScaleValues(count);
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
  const std::vector<float> values = ScaleValues(4096);
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
