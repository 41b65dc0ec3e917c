#include "sparse/shard.h"

#include <algorithm>

#include "base/check.h"

namespace ringwood {

std::vector<Shard> ShardsOf(uint64_t elements, uint64_t k, int shards) {
  const uint64_t count = static_cast<uint64_t>(shards), blocks = BlocksOf(elements);
  RW_CHECK(shards == 1 || (shards > 1 && count <= blocks));
  std::vector<Shard> list;
  uint64_t given = 0;
  for (uint64_t s = 0; s < count; ++s) {
    Shard shard;
    shard.begin = blocks * s / count * kBlockElements;
    shard.end = s + 1 == count ? elements : blocks * (s + 1) / count * kBlockElements;
    // In double: k·end may pass 64 bits. The last range takes what is left.
    const uint64_t upto =
        s + 1 == count ? k : std::min<uint64_t>(k, static_cast<double>(k) / elements * shard.end);
    shard.quota = std::clamp<uint64_t>(upto - given, 1, std::max<uint64_t>(1, shard.elements()));
    given = upto;
    list.push_back(shard);
  }
  return list;
}

int ShardCount(int reducers, uint64_t elements, uint64_t k) {
  const uint64_t most = std::min(BlocksOf(elements), k / kMinShardEntries);
  return static_cast<int>(std::clamp<uint64_t>(most, 1, std::max(1, reducers)));
}

}  // namespace ringwood
