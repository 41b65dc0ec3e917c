#include "sparse/cut.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <vector>

#include "base/random.h"
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
    for (uint64_t k = 1; k <= keys.size(); k += 1 + k / 3) {
      const KthKey kth = FindKthKey(values.data(), values.size(), k);
      EXPECT_EQ(kth.key, keys[k - 1]);
      EXPECT_EQ(kth.larger,
                static_cast<uint64_t>(std::count_if(keys.begin(), keys.end(),
                                                    [&](uint32_t x) { return x > kth.key; })));
    }
  }
}

TEST(KeepAbove, EqualsThePlainLoopForAnySizeAndNumberOfTies) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Random random(seed);
    const uint64_t count = random.Below(seed % 3 == 0 ? 40 : 2000);
    std::vector<float> value(count);
    for (float& v : value) v = static_cast<float>(static_cast<int>(random.Below(1 + seed % 9)) - 2);
    std::vector<uint32_t> index(count);
    std::iota(index.begin(), index.end(), 5);
    for (float threshold : {0.0f, 1.0f, 2.0f, 100.0f}) {
      for (uint64_t ties : {uint64_t{0}, uint64_t{1}, uint64_t{17}, count}) {
        std::vector<float> value_a = value, value_b = value;
        std::vector<uint32_t> index_a = index, index_b = index;
        const uint32_t key = KeyOf(threshold);
        const uint64_t kept = KeepAbove(key, ties, index_a.data(), value_a.data(), count);
        ASSERT_EQ(kept, KeepAbovePlain(key, ties, index_b.data(), value_b.data(), count));
        for (std::vector<uint32_t>* list : {&index_a, &index_b}) list->resize(kept);
        for (std::vector<float>* list : {&value_a, &value_b}) list->resize(kept);
        EXPECT_EQ(index_a, index_b) << seed << " " << threshold << " " << ties;
        EXPECT_EQ(value_a, value_b);
      }
    }
  }
}

}  // namespace
}  // namespace ringwood
