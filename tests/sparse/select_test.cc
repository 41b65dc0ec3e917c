#include "sparse/select.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "sparse/accumulate.h"
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

TEST(Accumulate, EqualsThePlainPassToTheBitAtAnyOffsetAndGuess) {
  for (uint64_t elements : {1, 63, 64, 65, 4096, 50001}) {
    for (size_t offset : {0, 1, 3}) {
      for (bool momentum : {false, true}) {
        for (uint32_t floor : {1u, KeyOf(300.0f), KeyOf(1e9f)}) {
          const auto gradient = MakeGradient(Pattern::kRandom, elements + offset, 0, elements);
          Buffer<float> residual(elements), velocity(elements), shadow[2], velocity_shadow[2];
          for (uint64_t i = 0; i < elements; ++i) residual[i] = 0.1f * gradient[elements - 1 - i];
          for (uint64_t i = 0; i < elements; ++i) velocity[i] = 0.3f * gradient[i];
          Entries picks[2];
          for (int way = 0; way < 2; ++way) {
            shadow[way] = Buffer<float>(elements);
            velocity_shadow[way] = Buffer<float>(elements);
            const AccumulatePass pass{elements,
                                      gradient.data() + offset,
                                      residual.data(),
                                      shadow[way].data(),
                                      momentum ? velocity.data() : nullptr,
                                      velocity_shadow[way].data(),
                                      0.7f,
                                      0.9f,
                                      0.95f};
            TopK topk(elements, elements / 3 + 1);
            topk.Restart(floor);
            way == 0 ? AccumulatePlain(pass, &topk) : Accumulate(pass, &topk);
            topk.Take(&picks[way]);
          }
          EXPECT_EQ(picks[0], picks[1]);
          EXPECT_EQ(0, std::memcmp(shadow[0].data(), shadow[1].data(), 4 * elements));
          EXPECT_EQ(
              0, std::memcmp(velocity_shadow[0].data(), velocity_shadow[1].data(), 4 * elements));
        }
      }
    }
  }
}

TEST(Scan, EqualsTheFullSortOnLargeAndRisingInputs) {
  std::vector<float> values = MakeGradient(Pattern::kRandom, 1000003, 0, 1);
  std::vector<float> rising(300000);
  for (size_t i = 0; i < rising.size(); ++i) rising[i] = static_cast<float>(i);
  for (const auto& x : {values, rising}) {
    const auto view = std::span(x).subspan(1);  // an odd offset
    for (uint64_t k : {uint64_t{1}, uint64_t{1000}, uint64_t{100000}, uint64_t{view.size()}}) {
      TopK topk(view.size(), k);
      topk.Restart(1);
      Scan(view, &topk);
      Entries picks;
      topk.Take(&picks);
      EXPECT_EQ(picks, SelectPlain(view, k)) << k;
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
