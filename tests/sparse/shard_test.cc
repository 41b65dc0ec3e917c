#include "sparse/shard.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "sparse/assign.h"
#include "sparse/tree.h"
#include "tests/sparse/samples.h"

namespace ringwood {
namespace {

TEST(Shard, RangesCoverTheGroupInWholeBlocksAndQuotasAddUpToK) {
  for (uint64_t elements : {1u, 65536u, 65537u, 1000000u, 16000000u}) {
    for (uint64_t shards = 1; shards <= std::min<uint64_t>(20, BlocksOf(elements)); ++shards) {
      for (uint64_t k : {uint64_t{1}, shards, uint64_t{1000}, elements / 100, elements}) {
        if (k > elements || k < 1) continue;
        uint64_t end = 0, quota = 0, least = elements, most = 0;
        for (const Shard& shard : ShardsOf(elements, k, static_cast<int>(shards))) {
          ASSERT_EQ(shard.begin, end);
          ASSERT_EQ(shard.begin % kBlockElements, 0u);
          ASSERT_GE(shard.quota, 1u);
          ASSERT_LE(shard.quota, shard.elements());
          end = shard.end;
          quota += shard.quota;
          least = std::min(least, shard.elements());
          most = std::max(most, shard.elements());
        }
        ASSERT_EQ(end, elements);
        ASSERT_LT(most - least, 2 * kBlockElements);
        ASSERT_GE(quota, k);
        ASSERT_LE(quota, k + shards) << elements << " " << shards << " " << k;
      }
    }
  }
}

TEST(Shard, CuttingOutAndPuttingBackIsTheGroupAgain) {
  const uint64_t elements = 500000;
  const Entries group = RandomEntries(elements, 5000, 3);
  Entries back;
  for (const Shard& shard : ShardsOf(elements, 5000, 7)) {
    const Entries part = CutOut(group, shard);
    for (uint32_t index : part.index) ASSERT_LT(index, shard.elements());
    PutBack(part, shard, &back);
  }
  EXPECT_EQ(back, group);
}

TEST(Shard, AreAsManyAsTheReducersWhileEachHasEnoughEntries) {
  EXPECT_EQ(ShardCount(4, 16000000, 16000), 4);
  EXPECT_EQ(ShardCount(4, 16000000, 1024), 2);
  EXPECT_EQ(ShardCount(4, 16000000, 1000), 1);
  EXPECT_EQ(ShardCount(4, 100000, 50000), 2);  // blocks
  EXPECT_EQ(ShardCount(0, 16000000, 16000), 1);
}

TEST(Assign, SharesManySmallGroupsOutByTheirBytes) {
  const TreeShape job{6, 4, 8};
  std::vector<SparseGroup> groups;
  Random random(1);
  for (uint32_t g = 0; g < 60; ++g) {
    SparseGroup group;
    group.group = g;
    group.k = 1 + random.Below(1000);
    group.elements = 100 * group.k;
    groups.push_back(group);
  }
  groups[30].k = 20000;
  groups[30].elements = 2000000;
  std::vector<SparseGroup> naive = groups;
  Assign(job, &groups);
  EXPECT_EQ(groups[30].shards, 4);
  EXPECT_EQ(groups[0].shards, 1);
  const auto spread = [&](const std::vector<SparseGroup>& all) {
    std::vector<uint64_t> load(job.reducers);  // entries that a reducer receives
    for (const SparseGroup& group : all) {
      TreeShape shape = job;
      shape.shards = group.shards;
      shape.first = group.first;
      for (int s = 0; s < group.shards; ++s) {
        const Tree tree(shape, s);
        for (int r = 0; r < job.reducers; ++r) {
          load[r] += tree.children(job.workers + r).size() * (group.k / group.shards);
        }
      }
    }
    const auto [least, most] = std::minmax_element(load.begin(), load.end());
    return static_cast<double>(*most) / static_cast<double>(*least);
  };
  EXPECT_LT(spread(groups), 1.05);
  for (size_t g = 0; g < naive.size(); ++g) naive[g].shards = groups[g].shards;
  EXPECT_GT(spread(naive), 1.3);  // everything from reducer 0 on
}

TEST(Group, ARangeTooManyIsRefusedWithTheNumbers) {
  SparseGroup group;
  group.group = 5;
  group.elements = 100000;
  group.k = 100;
  group.shards = 3;
  const auto shape = ShapeOf({4, 4, 8}, group);
  ASSERT_FALSE(shape.ok());
  EXPECT_NE(Message(shape.status()).find("group 5: 3 index ranges"), std::string::npos);
  group.shards = 2;
  EXPECT_TRUE(ShapeOf({4, 4, 8}, group).ok());
  EXPECT_FALSE(ShapeOf({4, 1, 8}, group).ok());
}

}  // namespace
}  // namespace ringwood
