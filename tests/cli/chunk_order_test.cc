// The chunks of an item from several stores, in order.
#include "client/grpc/chunk_order.h"

#include <gtest/gtest.h>

#include <deque>
#include <vector>

#include "base/random.h"

namespace ringwood {
namespace {

using Streams = std::vector<std::deque<NextChunk>>;

// The offsets that were taken; an error where the streams make no item.
StatusOr<std::vector<uint64_t>> Take(Streams streams, uint64_t item_bytes) {
  std::vector<uint64_t> taken;
  uint64_t at = 0;
  for (;;) {
    std::vector<std::optional<NextChunk>> next;
    for (const auto& stream : streams) {
      next.push_back(stream.empty() ? std::nullopt : std::optional(stream.front()));
    }
    RW_ASSIGN_OR_RETURN(const auto turn, WhoseTurn(next, at, item_bytes, "w"));
    if (!turn) return taken;
    taken.push_back(at);
    at += streams[*turn].front().bytes;
    streams[*turn].pop_front();
  }
}

Streams RandomStreams(uint64_t seed, uint64_t* item_bytes) {
  Random random(seed);
  Streams streams(1 + random.Below(4));
  *item_bytes = 0;
  for (uint64_t chunk = random.Below(12); chunk > 0; --chunk) {
    const uint64_t bytes = 1 + random.Below(5);
    streams[random.Below(streams.size())].push_back({*item_bytes, bytes});
    *item_bytes += bytes;
  }
  return streams;
}

TEST(ChunkOrder, EveryByteIsTakenOnce) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    uint64_t bytes = 0;
    const Streams streams = RandomStreams(seed, &bytes);
    size_t chunks = 0;
    for (const auto& stream : streams) chunks += stream.size();
    const auto taken = Take(streams, bytes);
    ASSERT_TRUE(taken.ok()) << taken.status();
    EXPECT_EQ(taken->size(), chunks);
  }
}

TEST(ChunkOrder, AChunkThatIsMissingTwiceOrMovedIsFound) {
  int changed = 0;
  for (uint64_t seed = 0; seed < 500; ++seed) {
    uint64_t bytes = 0;
    Streams streams = RandomStreams(seed, &bytes);
    Random random(seed + 1000);
    auto& stream = streams[random.Below(streams.size())];
    if (stream.empty()) continue;
    ++changed;
    const size_t which = random.Below(stream.size());
    switch (random.Below(4)) {
      case 0:
        stream.erase(stream.begin() + static_cast<int64_t>(which));
        break;
      case 1:
        stream.push_back(stream[which]);
        break;
      case 2:
        stream[which].offset += 1;
        break;
      default:
        stream[which].bytes += 1;
        break;
    }
    EXPECT_EQ(Take(streams, bytes).status().code(), StatusCode::kDataLoss) << "seed " << seed;
  }
  EXPECT_GT(changed, 200);
}

}  // namespace
}  // namespace ringwood
