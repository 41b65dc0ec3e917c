// Counts near 2^31 and 2^32, of what a group may have at most, without the memory for as many.
#include <gtest/gtest.h>

#include "sparse/chunks.h"
#include "sparse/codec.h"
#include "sparse/global_cut.h"
#include "sparse/merge.h"
#include "sparse/reducer/part.h"
#include "sparse/shard.h"
#include "sparse/value_code.h"

namespace ringwood {
namespace {

constexpr uint64_t kHalf = uint64_t{1} << 31;
constexpr uint64_t kManyElements[] = {kHalf - 1, kHalf, kHalf + 1, kMaxGroupElements - 1,
                                      kMaxGroupElements};

// At both ends, around 2^31, and at the edges of the last block.
Entries AtTheEdges(uint64_t begin, uint64_t end) {
  Entries entries;
  const uint64_t last_block = (end - 1) / kBlockElements * kBlockElements;
  for (const uint64_t index : {begin, begin + 1, kHalf - 1, kHalf, kHalf + 1, last_block - 1,
                               last_block, last_block + 1, end - 2, end - 1}) {
    const bool above = entries.size() == 0 || index > entries.index.back();
    if (index >= begin && index < end && above) {
      entries.push_back(static_cast<uint32_t>(index), static_cast<float>(entries.size() + 1));
    }
  }
  return entries;
}

TEST(LargeCounts, IndicesOfTheWholeGroupTravel) {
  for (const char* name : {"block16/fp32", "rice/fp32", "rice/int8"}) {
    const Codec codec = *ParseCodec(name);
    for (const uint64_t elements : kManyElements) {
      for (const uint64_t begin : {uint64_t{0}, kHalf - 2 * kBlockElements}) {
        const IndexRange range{begin, elements};
        const Entries entries = AtTheEdges(begin, elements);
        std::vector<std::byte> wire(MaxWireBytes(codec, range.elements(), entries.size()));
        wire.resize(Encode(codec, range, entries, wire));
        Entries back;
        const Status status = Decode(codec, range, entries.size(), wire, &back);
        ASSERT_TRUE(status.ok()) << name << " " << elements << ": " << status;
        EXPECT_EQ(back, entries) << name << " " << elements;
      }
    }
  }
}

TEST(LargeCounts, EntriesAtAllEdgesAreAddedAndAnswered) {
  for (const uint64_t elements : kManyElements) {
    const std::vector<Entries> children = {AtTheEdges(0, elements), AtTheEdges(5, elements)};
    EXPECT_EQ(MergeSum(children, elements), MergeSumPlain(children)) << elements;
  }
}

TEST(LargeCounts, RangesCoverTheGroupAndShareOutAllEntries) {
  for (const uint64_t elements : kManyElements) {
    for (const int shards : {1, 2, 3, 64, 1000}) {
      for (const uint64_t k : {uint64_t{1} << 20, elements / 2, elements - 1, elements}) {
        uint64_t end = 0, quota = 0;
        for (const Shard& shard : ShardsOf(elements, k, shards)) {
          ASSERT_EQ(shard.begin, end);
          ASSERT_LE(shard.quota, shard.elements());
          end = shard.end;
          quota += shard.quota;
        }
        ASSERT_EQ(end, elements);
        ASSERT_EQ(quota, k) << elements << " " << shards;
      }
    }
  }
}

TEST(LargeCounts, ChunksCoverAMessageAndItsBytesAreCounted) {
  for (const char* name : {"block16/fp32", "rice/int2"}) {
    const Codec codec = *ParseCodec(name);
    for (const uint64_t count : kManyElements) {
      const Cut cut{count, ChunkCount(codec, count)};
      ASSERT_GT(cut.chunks, 100);
      EXPECT_EQ(cut.begin(0), 0u);
      EXPECT_EQ(cut.begin(cut.chunks), count);
      for (int chunk = 0; chunk < cut.chunks; ++chunk) {
        ASSERT_LE(cut.begin(chunk + 1) - cut.begin(chunk), cut.entries());
      }
      EXPECT_GE(MaxValueBytes(ValueCode::kFloat32, count), 4 * count);
      EXPECT_GE(MaxWireBytes(codec, count, count), count / 4);
      EXPECT_LE(MaxWireBytes(codec, count, count), 8 * count);
    }
  }
}

TEST(LargeCounts, AReducerOfAllElementsKnowsWhatItHolds) {
  for (const char* merge : {"gtopk", "union", "exact"}) {
    SparseGroup group;
    group.elements = kMaxGroupElements;
    group.k = kMaxGroupElements / 3;
    group.merge = merge;
    group.shards = 2;
    const TreeShape shape{8, 2, 8, 2};
    const StatusOr<ReducerPart> part = PartOf(shape, 8, group, 0);
    ASSERT_TRUE(part.ok()) << part.status();
    // Eight workers' entries of half of the elements, 8 bytes each, and as many coming down.
    EXPECT_GT(part->MemoryBytes(), 8 * 8 * (group.k / 2)) << merge;
    EXPECT_LT(part->MemoryBytes(), 1ull << 42) << merge;
  }
}

// Each of three shards has more equal keys than a third of 2^32.
TEST(LargeCounts, HistogramsOfMoreThanAllThirtyTwoBitsAreAdded) {
  constexpr uint32_t kEach = 0xf0000000u;
  std::vector<uint32_t> histogram(GlobalCut::kBins, 0);
  histogram[1016] = kEach;  // of the first level: 1.0 and its neighbours
  histogram[7] = 3;
  EXPECT_EQ(*GlobalCut::Unpack(GlobalCut::Pack(histogram)), histogram);
  const uint64_t keep = 2ull * kEach + 1;
  for (int shard = 0; shard < 3; ++shard) {
    GlobalCut cut(keep, shard, 3);
    EXPECT_FALSE(cut.Take({histogram, histogram, histogram}));
    std::vector<uint32_t> one_bin(GlobalCut::kBins, 0);
    one_bin[0] = kEach;
    EXPECT_FALSE(cut.Take({one_bin, one_bin, one_bin}));
    EXPECT_TRUE(cut.Take({one_bin, one_bin, one_bin}));
    Entries entries;
    for (uint32_t i = 0; i < 4; ++i) entries.push_back(i, i == 2 ? 0.5f : 1.0f);
    cut.Apply(&entries);
    // The first two shards keep all of theirs, the third the first one.
    EXPECT_EQ(entries.size(), shard < 2 ? 3u : 1u) << shard;
  }
}

}  // namespace
}  // namespace ringwood
