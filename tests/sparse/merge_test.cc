#include "sparse/merge.h"

#include <gtest/gtest.h>

#include "tests/sparse/samples.h"

namespace ringwood {
namespace {

TEST(MergeSum, EqualsThePlainMapToTheBit) {
  for (uint64_t elements : {10, 65536, 65537, 300000}) {
    for (size_t count : {1, 2, 5, 17}) {
      std::vector<Entries> children;
      for (size_t c = 0; c < count; ++c) {
        Entries child = RandomEntries(elements, elements / (c + 2), c);
        for (float& value : child.value) value *= 0.1f;  // sums that round: the order shows
        children.push_back(std::move(child));
      }
      EXPECT_EQ(MergeSum(children, elements), MergeSumPlain(children));
    }
  }
}

TEST(MergeSum, OfNothingIsEmpty) {
  EXPECT_EQ(MergeSum(std::vector<Entries>(3), 100000).size(), 0u);
}

TEST(Counted, SaysForEachSentEntryWhetherItIsInTheResult) {
  const std::vector<uint32_t> sent = {1, 5, 9, 12}, counted = {0, 5, 6, 12, 40};
  EXPECT_EQ(CountedOf(sent, counted), (std::vector<uint8_t>{0, 1, 0, 1}));
  EXPECT_EQ(CountedOf(sent, {}), (std::vector<uint8_t>{0, 0, 0, 0}));
}

TEST(Counted, BitsRoundTrip) {
  Random random(1);
  for (uint64_t count = 0; count < 40; ++count) {
    std::vector<uint8_t> counted(count);
    for (uint8_t& bit : counted) bit = random.Below(2);
    std::vector<std::byte> bits;
    PackCounted(counted, &bits);
    EXPECT_EQ(bits.size(), CountedBytes(count));
    EXPECT_EQ(UnpackCounted(bits, count), counted);
  }
}

}  // namespace
}  // namespace ringwood
