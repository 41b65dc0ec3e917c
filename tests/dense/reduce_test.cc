#include "dense/arithmetic/reduce.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "base/random.h"
#include "dense/arithmetic/half.h"
#include "dense/arithmetic/rounding.h"

namespace ringwood {
namespace {

TEST(Reduce, MatchesThePlainReferenceBitForBit) {
  for (DataType type : {DataType::kFloat32, DataType::kBFloat16, DataType::kFloat16,
                        DataType::kFloat64, DataType::kInt32, DataType::kInt64, DataType::kUInt8}) {
    for (ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kMin, ReduceOp::kProduct}) {
      for (size_t count : {0, 1, 3, 7, 8, 15, 16, 17, 33, 1000}) {
        const size_t bytes = count * SizeOf(type);
        Random random(count + 1);
        // Any bits: infinities, NaNs and subnormals among them. One byte off alignment.
        std::vector<uint8_t> a(bytes + 1), b(bytes + 1), fast(bytes + 1), plain(bytes + 1);
        for (size_t i = 0; i <= bytes; ++i) {
          a[i] = static_cast<uint8_t>(random.Next());
          b[i] = static_cast<uint8_t>(random.Next());
        }
        Reduce(type, op, a.data() + 1, b.data() + 1, fast.data() + 1, count);
        ReferenceReduce(type, op, a.data() + 1, b.data() + 1, plain.data() + 1, count);
        ASSERT_EQ(fast, plain) << NameOf(type) << " " << NameOf(op) << " " << count;
        Reduce(type, op, a.data() + 1, b.data() + 1, b.data() + 1, count);
        ASSERT_EQ(0, std::memcmp(b.data() + 1, plain.data() + 1, bytes));
      }
    }
  }
}

TEST(Reduce, MultipliesAndWraps) {
  const int32_t a[] = {-3, 1 << 20}, b[] = {5, 1 << 20};
  int32_t out[2];
  Reduce(DataType::kInt32, ReduceOp::kProduct, a, b, out, 2);
  EXPECT_EQ(out[0], -15);
  EXPECT_EQ(out[1], 0);
  const double x = 0.5, y = -8;
  double product = 0;
  Reduce(DataType::kFloat64, ReduceOp::kProduct, &x, &y, &product, 1);
  EXPECT_EQ(product, -4);
}

TEST(Reduce, KeepsNotANumber) {
  const float nan = std::nanf("");
  for (ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kMin}) {
    const float a[] = {nan, 1, 2};
    const float b[] = {1, nan, 3};
    float out[3];
    Reduce(DataType::kFloat32, op, a, b, out, 3);
    EXPECT_TRUE(std::isnan(out[0]) && std::isnan(out[1]));
    EXPECT_EQ(out[2], op == ReduceOp::kSum ? 5 : op == ReduceOp::kMax ? 3 : 2);
  }
}

// Finite values of all magnitudes.
std::vector<float> Floats(size_t count, uint64_t seed) {
  Random random(seed);
  std::vector<float> values(count);
  for (float& value : values) {
    value = static_cast<float>(std::ldexp(random.Unit() - 0.5, random.Below(60) - 30));
  }
  return values;
}

TEST(Rounding, MatchesThePlainReferenceBitForBit) {
  for (size_t count : {0, 1, 3, 7, 8, 15, 16, 17, 33, 1000}) {
    const auto x = Floats(count, 1), error = Floats(count, 2);
    std::vector<uint16_t> fast(count), plain(count);
    std::vector<float> fast_error(count), plain_error(count);
    RoundSum(x.data(), error.data(), fast.data(), fast_error.data(), count);
    ReferenceRoundSum(x.data(), error.data(), plain.data(), plain_error.data(), count);
    ASSERT_EQ(fast, plain);
    ASSERT_EQ(fast_error, plain_error);
    // From memory of its own at an odd address, then in place.
    std::vector<std::byte> partial(2 * count + 1);
    if (count != 0) std::memcpy(partial.data() + 1, fast.data(), 2 * count);
    const auto* const odd = reinterpret_cast<const uint16_t*>(partial.data() + 1);
    std::vector<uint16_t> from_odd(count);
    RoundPartialSum(odd, x.data(), error.data(), from_odd.data(), fast_error.data(), count);
    RoundPartialSum(fast.data(), x.data(), error.data(), fast.data(), fast_error.data(), count);
    ReferenceRoundPartialSum(plain.data(), x.data(), error.data(), plain.data(), plain_error.data(),
                             count);
    ASSERT_EQ(from_odd, plain);
    ASSERT_EQ(fast, plain);
    ASSERT_EQ(fast_error, plain_error);
    std::vector<float> wide(count), wide_plain(count);
    std::copy(fast.begin(), fast.end(), HalfBehind(wide.data(), count));
    std::copy(fast.begin(), fast.end(), HalfBehind(wide_plain.data(), count));
    WidenBehind(wide.data(), count);
    ReferenceWidenBehind(wide_plain.data(), count);
    for (size_t i = 0; i < count; ++i) {
      ASSERT_EQ(wide[i], FromBFloat16(fast[i])) << i << " of " << count;
      ASSERT_EQ(wide_plain[i], wide[i]);
    }
  }
}

TEST(Rounding, WhatIsSentAndTheErrorMakeTheValueToTheBit) {
  const auto x = Floats(10000, 3);
  const std::vector<float> none(x.size());
  std::vector<uint16_t> wire(x.size());
  std::vector<float> error(x.size());
  RoundSum(x.data(), none.data(), wire.data(), error.data(), x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(static_cast<double>(FromBFloat16(wire[i])) + error[i], x[i]);
    ASSERT_LE(std::fabs(error[i]), std::fabs(x[i]) / 256);
  }
}

TEST(Half, EveryBFloat16AndFloat16SurvivesTheWayThroughFloat32) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const uint16_t half = static_cast<uint16_t>(bits);
    const float wide = FromBFloat16(half);
    if (std::isnan(wide)) {
      EXPECT_TRUE(std::isnan(FromBFloat16(ToBFloat16(wide))));
    } else {
      ASSERT_EQ(ToBFloat16(wide), half);
    }
    const float wide16 = FromFloat16(half);
    if (std::isnan(wide16)) {
      EXPECT_TRUE(std::isnan(FromFloat16(ToFloat16(wide16))));
    } else {
      ASSERT_EQ(ToFloat16(wide16), half);
    }
  }
}

TEST(Half, RoundsToTheNearestAndTiesToEven) {
  for (uint16_t low = 0; low < 0x7bff; ++low) {
    const float a = FromFloat16(low);
    const float b = FromFloat16(low + 1);
    const float tie = a + (b - a) / 2;  // exact: one bit more than the halves have
    ASSERT_EQ(ToFloat16(tie), low % 2 == 0 ? low : low + 1);
    ASSERT_EQ(ToFloat16(std::nextafter(tie, a)), low);
    ASSERT_EQ(ToFloat16(-std::nextafter(tie, b)), (low + 1) | 0x8000);
  }
  for (uint16_t low = 0; low < 0x7f7f; ++low) {
    const float a = FromBFloat16(low);
    const float tie = a + (FromBFloat16(low + 1) - a) / 2;
    ASSERT_EQ(ToBFloat16(tie), low % 2 == 0 ? low : low + 1);
    ASSERT_EQ(ToBFloat16(std::nextafter(tie, a)), low);
  }
  EXPECT_EQ(ToFloat16(65520.0f), 0x7c00);
  EXPECT_EQ(ToFloat16(65519.0f), 0x7bff);
  EXPECT_EQ(ToFloat16(1e-10f), 0);
}

}  // namespace
}  // namespace ringwood
