// Index-range sharding: a group's elements in contiguous ranges, each with a tree and a quota of
// its own, so that the NIC of every server carries its part of the entries only.
//
// Picks spread over the ranges are cut range by range: a range that holds more of the large sums
// than its share loses some of them for this round (they stay in the residuals), and another keeps
// smaller ones. The merge "exact" (reducer.h) gives the k largest over all ranges instead.
#pragma once

#include <cstdint>
#include <vector>

#include "sparse/entries.h"

namespace ringwood {

struct Shard {
  uint64_t begin = 0;  // elements [begin, end) of the group; begin is a multiple of kBlockElements
  uint64_t end = 0;
  uint64_t quota = 0;  // entries of the result; shares of k by size, at least 1
  uint64_t elements() const { return end - begin; }
};

// Ranges of whole blocks, as equal as blocks allow. Needs 1 <= shards <= BlocksOf(elements), or
// shards 1. Quotas add up to k; where k < shards each has one all the same.
std::vector<Shard> ShardsOf(uint64_t elements, uint64_t k, int shards);

// The number of shards to use: as many as reducers, but none smaller than a block or with a quota
// below kMinShardEntries, because every shard costs each worker two more messages.
constexpr uint64_t kMinShardEntries = 512;
int ShardCount(int reducers, uint64_t elements, uint64_t k);

}  // namespace ringwood
