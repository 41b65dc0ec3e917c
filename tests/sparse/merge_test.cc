#include "sparse/merge.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

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

TEST(Accepted, SaysForEachSentEntryWhetherItIsInTheResult) {
  const std::vector<uint32_t> sent = {1, 5, 9, 12}, accepted = {0, 5, 6, 12, 40};
  EXPECT_EQ(AcceptedOf(sent, accepted), (std::vector<uint8_t>{0, 1, 0, 1}));
  EXPECT_EQ(AcceptedOf(sent, {}), (std::vector<uint8_t>{0, 0, 0, 0}));
}

TEST(Accepted, BitsOfEachChildAreThoseOfThePlainComparison) {
  BlockRoom room;
  std::vector<std::vector<std::byte>> bits;
  for (uint64_t elements : {70, 65536, 300000}) {
    for (uint64_t size : {uint64_t{0}, uint64_t{1}, elements / 7, elements / 2, elements}) {
      const Entries accepted = RandomEntries(elements, size, 1);
      std::vector<Entries> children;
      for (uint64_t c = 0; c < 5; ++c) {
        children.push_back(RandomEntries(elements, elements * c / 5, 10 + c));
      }
      PackAcceptedOf(accepted.index, children, &room, &bits);
      ASSERT_EQ(bits.size(), children.size());
      for (size_t c = 0; c < children.size(); ++c) {
        ASSERT_EQ(bits[c].size(), AcceptedBytes(children[c].size()));
        std::vector<uint8_t> bytes = {7};
        UnpackAccepted(bits[c], children[c].size(), &bytes);
        EXPECT_EQ(bytes[0], 7) << "what was there stays";
        bytes.erase(bytes.begin());
        EXPECT_EQ(bytes, AcceptedOf(children[c].index, accepted.index));
      }
    }
  }
}

TEST(Merger, GivesTheSameInAnyNumberOfAdvances) {
  const uint64_t elements = 400000;
  std::vector<Entries> children;
  for (size_t c = 0; c < 3; ++c) children.push_back(RandomEntries(elements, 9000 + c, c));
  const Entries whole = MergeSumPlain(children);
  BlockRoom room;
  Merger merger;
  for (uint64_t step : {1u, 1000u, 65536u, 150000u}) {
    merger.Restart(children.size());
    for (uint64_t end = 0; end < elements; end += step * 13) {
      merger.Advance(children, end, elements, &room);
      EXPECT_TRUE(merger.sum()->size() == 0 || merger.sum()->index.back() < end);
    }
    merger.Advance(children, elements, elements, &room);
    EXPECT_EQ(*merger.sum(), whole);
  }
}

TEST(Merger, KeepsTheSignOfALoneZero) {
  Entries zero;
  zero.push_back(3, -0.0f);
  const Entries sum = MergeSum(std::vector<Entries>{zero, Entries{}}, 100);
  EXPECT_TRUE(std::signbit(sum.value[0]));
}

}  // namespace
}  // namespace ringwood
