#include "sparse/cut.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <vector>

#include "base/random.h"
#include "sparse/entries.h"
#include "sparse/key.h"

namespace ringwood {
namespace {

TEST(FindKthKey, EqualsTheSortedKeys) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Random random(seed);
    std::vector<float> values(1 + random.Below(3000));
    for (float& value : values) {
      const uint32_t bits = static_cast<uint32_t>(random.Next());
      value = std::bit_cast<float>(seed % 2 ? bits : bits & 0x800000ffu);
    }
    std::vector<uint32_t> keys;
    for (float value : values) keys.push_back(KeyOf(value));
    std::sort(keys.rbegin(), keys.rend());
    const KeyRange range = RangeOf(values.data(), values.size());
    EXPECT_EQ(range.most, keys.front());
    EXPECT_EQ(range.least, keys.back());
    for (uint64_t k = 1; k <= keys.size(); k += 1 + k / 3) {
      const KthKey kth = FindKthKey(values.data(), values.size(), k, range);
      EXPECT_EQ(kth.key, keys[k - 1]);
      EXPECT_EQ(kth.larger,
                static_cast<uint64_t>(std::count_if(keys.begin(), keys.end(),
                                                    [&](uint32_t x) { return x > kth.key; })));
    }
  }
}

TEST(FindKthKey, NeedsNoTightRangeAndGoesDownToOneKey) {
  std::vector<float> values;  // thousands in the bin of the k-th, and a few that stretch the range
  for (uint32_t i = 0; i < 5000; ++i) values.push_back(FromKey(0x3f800000u + i % 700));
  for (uint32_t i = 1; i <= 4; ++i) values.push_back(-FromKey(0x10000000u * i));
  std::vector<uint32_t> keys;
  for (float value : values) keys.push_back(KeyOf(value));
  std::sort(keys.rbegin(), keys.rend());
  for (uint64_t k : {1, 2, 3, 4, 1000, 2500, 5001, 5004}) {
    for (const KeyRange range : {KeyRange{0, 0x7fffffff}, KeyRange{keys.back(), keys.front()}}) {
      const KthKey kth = FindKthKey(values.data(), values.size(), k, range);
      EXPECT_EQ(kth.key, keys[k - 1]) << k;
      EXPECT_EQ(kth.larger,
                static_cast<uint64_t>(std::count_if(keys.begin(), keys.end(),
                                                    [&](uint32_t x) { return x > kth.key; })));
    }
  }
}

TEST(KeepAbove, EqualsThePlainLoopForAnySizeAndNumberOfTiesInPlaceAndElsewhere) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Random random(seed);
    Entries list;
    const uint64_t count = random.Below(seed % 3 == 0 ? 40 : 2000);
    for (uint32_t i = 0; i < count; ++i) {
      list.push_back(5 + i, static_cast<float>(static_cast<int>(random.Below(1 + seed % 9)) - 2));
    }
    for (float threshold : {0.0f, 1.0f, 2.0f, 100.0f}) {
      for (uint64_t ties : {uint64_t{0}, uint64_t{1}, uint64_t{17}, count}) {
        const uint32_t key = KeyOf(threshold);
        Entries plain = list, in_place = list, elsewhere;
        elsewhere.index.resize(count + kKeepOverhang);
        elsewhere.value.resize(count + kKeepOverhang);
        const auto arrays = [](Entries* of) {
          return EntryArrays{of->index.data(), of->value.data()};
        };
        const uint64_t kept = KeepAbovePlain(key, ties, list, arrays(&plain));
        ASSERT_EQ(kept, KeepAbove(key, ties, in_place, arrays(&in_place)));
        ASSERT_EQ(kept, KeepAbove(key, ties, list, arrays(&elsewhere)));
        for (Entries* of : {&plain, &in_place, &elsewhere}) {
          of->index.resize(kept);
          of->value.resize(kept);
        }
        EXPECT_EQ(in_place, plain) << seed << " " << threshold << " " << ties;
        EXPECT_EQ(elsewhere, plain);
      }
    }
  }
}

}  // namespace
}  // namespace ringwood
