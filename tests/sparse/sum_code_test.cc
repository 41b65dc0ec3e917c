#include "sparse/bits/sum_code.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/random.h"
#include "sparse/codec.h"

namespace ringwood {
namespace {

std::vector<std::byte> SumsOf(const std::vector<float>& values) {
  std::vector<std::byte> wire(MaxSumBytes(values.size()));
  wire.resize(static_cast<size_t>(EncodeSums(values, wire.data()) - wire.data()));
  return wire;
}

void ExpectBack(const std::vector<float>& values) {
  const std::vector<std::byte> wire = SumsOf(values);
  std::vector<float> back(values.size());
  ASSERT_EQ(DecodeSums(wire, back), wire.size());
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(std::bit_cast<uint32_t>(back[i]), std::bit_cast<uint32_t>(values[i])) << i;
  }
}

TEST(Sums, AnyFloatsComeBackToTheBit) {
  constexpr float kMost = std::numeric_limits<float>::max();
  ExpectBack({});
  ExpectBack({0.0f, -0.0f});
  ExpectBack({kMost, -kMost, 0x1p-149f});
  ExpectBack({kMost, -kMost, 0x1p127f});
  ExpectBack({0x1p-149f, -0x3p-149f, -0.0f});
  ExpectBack({1, INFINITY});
  ExpectBack({std::nanf("7"), -1});
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    Random random(seed);
    std::vector<float> values(random.Below(200));
    const auto exponents = static_cast<uint32_t>(1 + random.Below(1 + seed % 40));
    const auto first = static_cast<uint32_t>(random.Below(256 - exponents));
    const auto mantissa = 0x7fffffu & ~((1u << random.Below(24)) - 1);
    for (float& value : values) {
      const auto exponent = first + static_cast<uint32_t>(random.Below(exponents));
      const auto bits = static_cast<uint32_t>(random.Next());
      value = std::bit_cast<float>((bits & (mantissa | 0x80000000u)) | exponent << 23);
    }
    ExpectBack(values);
  }
}

// A sum of n codes of b bits with one scale has b + ⌈log2 n⌉ bits, as on a ring.
TEST(Sums, TakeTheBitsOfTheCodesAndThoseThatAddingMakes) {
  for (const int largest : {1, 7, 127}) {
    for (int workers = 1; workers <= 33; ++workers) {
      std::vector<float> values(640);
      Random random(static_cast<uint64_t>(workers));
      for (float& value : values) {
        for (int w = 0; w < workers; ++w) {
          const auto code = static_cast<int>(random.Below(2 * static_cast<uint64_t>(largest) + 1));
          value += std::ldexp(static_cast<float>(code - largest), -9);
        }
      }
      const auto bits = 1 + std::bit_width(static_cast<unsigned>(largest * workers));
      EXPECT_LE(SumsOf(values).size(), 10 * (2 + 64 * static_cast<size_t>(bits) / 8));
      ExpectBack(values);
    }
  }
}

TEST(Sums, AWidthThatThereIsNotAndAnEarlyEndAreRefused) {
  std::vector<std::byte> wire = SumsOf(std::vector<float>(70, 3));
  std::vector<float> back(70);
  for (size_t bytes = 0; bytes < wire.size(); ++bytes) {
    EXPECT_EQ(DecodeSums(std::span(wire).first(bytes), back), std::nullopt) << bytes;
  }
  for (const int width : {0, 25, 31, 33, 255}) {
    wire[0] = static_cast<std::byte>(width);
    EXPECT_EQ(DecodeSums(wire, back), std::nullopt) << width;
  }
}

TEST(Sums, AreWhatGoesDownWhereIntegersGoUp) {
  for (const char* value : {"int8", "int4", "int2"}) {
    EXPECT_EQ(ParseCodec(std::string("rice/") + value)->Exact(),
              (Codec{IndexCode::kRice, ValueCode::kSums}));
  }
  for (const char* value : {"fp32", "bf16"}) {
    EXPECT_EQ(ParseCodec(std::string("block16/") + value)->Exact(), *ParseCodec("block16/fp32"));
  }
}

}  // namespace
}  // namespace ringwood
