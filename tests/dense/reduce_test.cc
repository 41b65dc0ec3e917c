#include "dense/reduce.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "base/random.h"
#include "dense/half.h"

namespace ringwood {
namespace {

TEST(Reduce, MatchesThePlainReferenceBitForBit) {
  for (DataType type : {DataType::kFloat32, DataType::kBFloat16, DataType::kFloat16,
                        DataType::kFloat64, DataType::kInt32, DataType::kInt64, DataType::kUInt8}) {
    for (ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kMin}) {
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
