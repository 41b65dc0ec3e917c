#include "sparse/select.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/sparse/samples.h"

namespace ringwood {
namespace {

Entries Stream(std::span<const float> values, uint64_t k, uint32_t floor, uint64_t* nonfinite) {
  TopK topk(values.size(), k);
  topk.Restart(floor);
  for (size_t i = 0; i < values.size(); ++i) {
    if (topk.room() == 0) topk.Cut();
    topk.Offer(static_cast<uint32_t>(i), values[i]);
  }
  Entries picks;
  topk.Take(&picks);
  *nonfinite = topk.nonfinite();
  return picks;
}

TEST(TopK, EqualsTheFullSortForEveryPatternAndSize) {
  for (int pattern = 0; pattern < static_cast<int>(Pattern::kCount); ++pattern) {
    for (uint64_t elements : {1, 2, 3, 63, 64, 65, 1000, 20000}) {
      const auto values = MakeGradient(static_cast<Pattern>(pattern), elements, 0, elements);
      for (uint64_t k :
           {uint64_t{1}, uint64_t{2}, elements / 100 + 1, elements / 2 + 1, elements}) {
        uint64_t nonfinite = 0;
        EXPECT_EQ(Stream(values, k, 1, &nonfinite), SelectPlain(values, k))
            << "pattern " << pattern << " elements " << elements << " k " << k;
        EXPECT_EQ(nonfinite, 0u);
      }
    }
  }
}

TEST(TopK, RisingValuesWhichCutAgainAndAgainAreStillExact) {
  std::vector<float> rising(100000), falling(rising.size());
  for (size_t i = 0; i < rising.size(); ++i) {
    rising[i] = static_cast<float>(i + 1);
    falling[rising.size() - 1 - i] = -rising[i];
  }
  for (uint64_t k : {1, 7, 1000, 60000}) {
    uint64_t nonfinite = 0;
    EXPECT_EQ(Stream(rising, k, 1, &nonfinite), SelectPlain(rising, k));
    EXPECT_EQ(Stream(falling, k, 1, &nonfinite), SelectPlain(falling, k));
  }
}

TEST(TopK, CountsNaNAndInfAndNeverPicksThem) {
  std::vector<float> values = MakeGradient(Pattern::kRandom, 50000, 0, 3);
  values[0] = std::numeric_limits<float>::infinity();
  values[25000] = -std::numeric_limits<float>::infinity();
  values[49999] = std::nanf("");
  values[49998] = std::numeric_limits<float>::max();
  uint64_t nonfinite = 0;
  const Entries picks = Stream(values, 10, 1, &nonfinite);
  EXPECT_EQ(nonfinite, 3u);
  EXPECT_EQ(picks, SelectPlain(values, 10));
  EXPECT_EQ(picks.index.back(), 49998u);
}

TEST(TopK, SkipsZerosSoThatFewerThanKMayComeBack) {
  const std::vector<float> values = {0, -0.0f, 5, 0, std::numeric_limits<float>::denorm_min()};
  uint64_t nonfinite = 0;
  const Entries picks = Stream(values, 4, 1, &nonfinite);
  EXPECT_EQ(picks.index, (std::vector<uint32_t>{2, 4}));
}

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

TEST(KeepLargest, TakesTheSmallerIndexOnATieAndZerosLast) {
  Entries entries;
  for (uint32_t i = 0; i < 6; ++i) entries.push_back(i * 10, i == 3 ? -7.0f : i == 0 ? 0.0f : 2.0f);
  KeepLargest(3, &entries);
  EXPECT_EQ(entries.index, (std::vector<uint32_t>{10, 20, 30}));
  KeepLargest(5, &entries);
  EXPECT_EQ(entries.size(), 3u);
  KeepLargest(0, &entries);
  EXPECT_EQ(entries.size(), 0u);
}

}  // namespace
}  // namespace ringwood
