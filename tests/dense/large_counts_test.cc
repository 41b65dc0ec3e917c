// Tensors of 2^31 and 2^32 elements and more, without the memory for them.
#include <gtest/gtest.h>

#include <limits>

#include "dense/collective.h"
#include "dense/hosts.h"
#include "dense/lattice/codes.h"

namespace ringwood {
namespace {

constexpr uint64_t kManyElements[] = {(1ull << 29) + 1, (1ull << 31) - 1, (1ull << 31) + 1,
                                      (1ull << 32) - 1, (1ull << 32) + 259};

// Slots follow each other within a chunk and chunks within the tensor; a message is as long as it
// says, and so are all together.
void ExpectCovered(const CollectiveSpec& spec, const Place& place) {
  const Collective made = CollectiveFor(spec, place);
  const size_t chunks = ChunksOf(made);
  ASSERT_GT(chunks, 1u);
  ASSERT_LE(chunks, std::numeric_limits<uint32_t>::max());
  uint64_t at = 0;
  for (size_t chunk = 0; chunk < chunks; ++chunk) {
    for (const Range& slot : SlotsOf(made, chunk)) {
      ASSERT_EQ(slot.begin, at) << spec.elements << ", chunk " << chunk;
      at += slot.count;
    }
  }
  ASSERT_EQ(at, spec.elements);
  const Step step{Op::kSend, 0, 0};
  EXPECT_GE(MessageBytes(made, spec.elements, step), spec.elements / 4);
}

TEST(LargeCounts, EveryElementOfALongTensorLiesInOneSlot) {
  for (const uint64_t elements : kManyElements) {
    for (const char* wire : {"fp32", "bf16", "int8", "int4"}) {
      CollectiveSpec spec;
      spec.elements = elements;
      spec.wire = wire;
      for (const int world : {2, 7}) {
        ASSERT_NO_FATAL_FAILURE(ExpectCovered(spec, {0, world}));
        ASSERT_NO_FATAL_FAILURE(ExpectCovered(spec, {1, world, EvenHosts(world, 2)}));
      }
    }
  }
}

TEST(LargeCounts, LastSharesOfALongTensorEndWithIt) {
  for (const uint64_t elements : kManyElements) {
    for (const Verb verb : {Verb::kReduceScatter, Verb::kAllGather}) {
      CollectiveSpec spec;
      spec.verb = verb;
      spec.elements = elements;
      spec.shares = {5, 0, elements - 5};
      const Collective made = CollectiveFor(spec, {2, 3});
      const std::vector<Range> last = SlotsOf(made, ChunksOf(made) - 1);
      EXPECT_EQ(last[2].begin + last[2].count, elements);
      EXPECT_EQ(last[1].count, 0u);
      EXPECT_TRUE(AreLengths(spec.shares, elements, 3));
    }
  }
}

TEST(LargeCounts, CodesOfALongTensorHaveAllTheirBytes) {
  for (const uint64_t elements : kManyElements) {
    EXPECT_EQ(LatticeBlocks(elements) % kPackBlocks, 0u);
    EXPECT_GE(LatticeBlocks(elements) * kLatticeBlock, elements);
    EXPECT_LT(LatticeBlocks(elements) * kLatticeBlock, elements + kLatticePack);
    EXPECT_EQ(PackedBytes(LatticeBlocks(elements), 16), LatticeBlocks(elements) * 129);
  }
}

}  // namespace
}  // namespace ringwood
