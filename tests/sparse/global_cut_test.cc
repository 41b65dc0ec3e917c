#include "sparse/global_cut.h"

#include <gtest/gtest.h>

#include "sparse/select.h"
#include "sparse/shard.h"
#include "tests/sparse/samples.h"

namespace ringwood {
namespace {

// What all shards together keep; the histograms go round here.
Entries Agree(const Entries& whole, uint64_t elements, uint64_t keep, int shards) {
  std::vector<Shard> ranges = ShardsOf(elements, keep, shards);
  std::vector<GlobalCut> cuts;
  std::vector<Entries> parts;
  for (int s = 0; s < shards; ++s) {
    cuts.emplace_back(keep, s, shards);
    parts.push_back(CutOut(whole, ranges[s]));
  }
  for (bool ready = false; !ready;) {
    std::vector<std::vector<uint32_t>> histograms;
    for (int s = 0; s < shards; ++s) {
      const auto wire = GlobalCut::Pack(cuts[s].Count(parts[s].value));
      EXPECT_LE(wire.size(), GlobalCut::kMaxPackedBytes);
      histograms.push_back(*GlobalCut::Unpack(wire));
    }
    ready = cuts[0].Take(histograms);
    for (int s = 1; s < shards; ++s) EXPECT_EQ(cuts[s].Take(histograms), ready);
  }
  Entries kept;
  for (int s = 0; s < shards; ++s) {
    cuts[s].Apply(&parts[s]);
    PutBack(parts[s], ranges[s], &kept);
  }
  return kept;
}

TEST(GlobalCut, KeepsWhatOneServerWouldKeepForEveryPattern) {
  const uint64_t elements = 6 * kBlockElements;
  for (int pattern = 0; pattern < static_cast<int>(Pattern::kCount); ++pattern) {
    const auto values = MakeGradient(static_cast<Pattern>(pattern), elements, 0, 5);
    Entries whole = RandomEntries(elements, 3000, pattern + 1);
    for (size_t j = 0; j < whole.size(); ++j) whole.value[j] = values[whole.index[j]];
    for (int shards : {1, 2, 3, 6}) {
      for (uint64_t keep : {1u, 2u, 100u, 2999u, 3000u, 5000u}) {
        Entries expected = whole;
        KeepLargest(keep, &expected);
        ASSERT_EQ(Agree(whole, elements, keep, shards), expected)
            << "pattern " << pattern << " shards " << shards << " keep " << keep;
      }
    }
  }
}

TEST(GlobalCut, OfEmptyShardsIsEmpty) {
  EXPECT_EQ(Agree(Entries{}, 3 * kBlockElements, 10, 3).size(), 0u);
}

TEST(GlobalCut, EndsWhenAPeerTellsLies) {
  Random random(3);
  for (int trial = 0; trial < 50; ++trial) {
    GlobalCut cut(100, 0, 2);
    Entries own = RandomEntries(1000, 200, trial);
    for (int level = 0; level < GlobalCut::kLevels; ++level) {
      std::vector<uint32_t> lie(GlobalCut::kBins);
      for (uint32_t& count : lie) count = static_cast<uint32_t>(random.Below(level == 0 ? 3 : 2));
      if (cut.Take({cut.Count(own.value), lie})) break;
    }
    cut.Apply(&own);
    EXPECT_LE(own.size(), 200u);
  }
}

TEST(GlobalCut, AHistogramFromAnyBytesIsAnErrorOrHasAllBins) {
  Random random(5);
  int read = 0;
  for (int trial = 0; trial < 5000; ++trial) {
    std::vector<std::byte> wire(random.Below(40));
    for (std::byte& byte : wire) byte = static_cast<std::byte>(random.Next());
    const auto histogram = GlobalCut::Unpack(wire);
    EXPECT_TRUE(!histogram.ok() || histogram->size() == GlobalCut::kBins);
    read += histogram.ok();
  }
  EXPECT_GT(read, 0);
  EXPECT_FALSE(GlobalCut::Unpack(std::vector<std::byte>(2 * GlobalCut::kBins + 2)).ok());
  std::vector<uint32_t> most(GlobalCut::kBins, UINT32_MAX);
  EXPECT_EQ(*GlobalCut::Unpack(GlobalCut::Pack(most)), most);
}

}  // namespace
}  // namespace ringwood
