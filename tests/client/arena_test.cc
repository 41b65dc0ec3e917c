// What a rank saves, and how it travels.
#include "client/checkpoint/arena.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "base/digest.h"
#include "base/loop.h"
#include "base/random.h"
#include "client/grpc/chunk_message.h"

namespace ringwood {
namespace {

using ::testing::HasSubstr;

std::vector<std::byte> Noise(size_t bytes, uint64_t seed) {
  Random random(seed);
  std::vector<std::byte> noise(bytes);
  for (std::byte& byte : noise) byte = static_cast<std::byte>(random.Next());
  return noise;
}

TEST(Arena, SharedPiecesOfAllRanksCoverEveryByteOnce) {
  const std::vector<size_t> sizes = {5 * kPieceBytes, 0, 1, 3 * kPieceBytes + 17, kPieceBytes - 1};
  std::vector<std::vector<std::byte>> memory;
  std::vector<Item> items;
  for (size_t i = 0; i < sizes.size(); ++i) {
    memory.emplace_back(sizes[i]);
    items.push_back({"item" + std::to_string(i), true, memory.back()});
  }
  for (int world = 1; world <= 33; ++world) {
    std::map<std::pair<size_t, uint64_t>, uint64_t> covered;  // (item, offset) -> bytes
    size_t least = SIZE_MAX, most = 0;
    for (int rank = 0; rank < world; ++rank) {
      const std::vector<Piece> pieces = PiecesOf(items, rank, world);
      least = std::min(least, pieces.size());
      most = std::max(most, pieces.size());
      for (const Piece& piece : pieces) {
        EXPECT_LE(piece.bytes, kPieceBytes);
        EXPECT_TRUE(covered.emplace(std::pair(piece.item, piece.offset), piece.bytes).second);
      }
    }
    EXPECT_LE(most - least, 1u) << "uneven shares in a world of " << world;
    std::vector<uint64_t> next(sizes.size(), 0);
    for (const auto& [place, bytes] : covered) {
      EXPECT_EQ(place.second, next[place.first]);
      next[place.first] += bytes;
    }
    for (size_t i = 0; i < sizes.size(); ++i) EXPECT_EQ(next[i], sizes[i]);
  }
}

TEST(Arena, OwnItemsAreWholeOnEveryRank) {
  const std::vector<std::byte> own(2 * kPieceBytes + 3);
  const std::vector<Item> items = {{"own", false, own}};
  for (int rank : {0, 1, 2}) {
    const std::vector<Piece> expected = {
        {0, 0, kPieceBytes}, {0, kPieceBytes, kPieceBytes}, {0, 2 * kPieceBytes, 3}};
    EXPECT_EQ(PiecesOf(items, rank, 3), expected);
  }
}

TEST(Arena, HoldsTheBytesOfTheMomentItWasFilled) {
  std::vector<std::byte> weights = Noise(2 * kPieceBytes + 100, 1);
  const std::vector<std::byte> before = weights;
  Arena arena(1 << 30);
  ASSERT_TRUE(arena.Fill({{"weights", true, weights}}, 0, 1).ok());
  weights = Noise(weights.size(), 2);  // training goes on
  uint64_t at = 0;
  for (size_t i = 0; i < arena.size(); ++i) {
    const Arena::Entry entry = arena.entry(i);
    EXPECT_EQ(entry.offset, at);
    EXPECT_EQ(entry.item_bytes, before.size());
    EXPECT_TRUE(std::equal(entry.data.begin(), entry.data.end(), before.begin() + at));
    at += entry.data.size();
  }
  EXPECT_EQ(at, before.size());
}

// Of several threads that complete it none comes back before all is copied.
TEST(Arena, SteadyItemsAreCopiedLaterByWhoeverComesFirst) {
  Arena arena(1 << 30);
  for (uint64_t round = 0; round < 20; ++round) {
    std::vector<std::byte> own = Noise(9 * kPieceBytes + 17, 3 * round);
    std::vector<std::byte> weights = Noise(2 * kPieceBytes, 3 * round + 1);
    const std::vector<std::byte> before = weights;
    std::vector<Item> items = {{"residual", false, own}, {"weights", true, weights}};
    items[0].steady = true;
    ASSERT_TRUE(arena.Fill(items, 0, 1).ok());
    weights = Noise(weights.size(), 3 * round + 2);
    const std::vector<std::byte> kept = Noise(own.size(), 100 + round);
    std::copy(kept.begin(), kept.end(), own.begin());  // as nobody may: it shows when it is copied
    std::atomic<int> complete{0};
    Loop one("one"), other("other");
    for (Loop* loop : {&one, &other}) {
      loop->Post([&] {
        arena.Complete();
        ++complete;
      });
    }
    arena.Complete();
    own.assign(own.size(), std::byte{0});
    for (size_t i = 0; i < arena.size(); ++i) {
      const Arena::Entry entry = arena.entry(i);
      const std::vector<std::byte>& expected = entry.shared ? before : kept;
      ASSERT_TRUE(
          std::equal(entry.data.begin(), entry.data.end(), expected.begin() + entry.offset));
    }
    while (complete < 2) std::this_thread::yield();
  }
}

TEST(Arena, RefusesWhatIsOverItsLimitOrNamedTwice) {
  const std::vector<std::byte> data(2000);
  Arena arena(1000);
  EXPECT_EQ(arena.Fill({{"big", false, data}}, 0, 1).code(), StatusCode::kResourceExhausted);
  Arena larger(1 << 20);
  EXPECT_THAT(Message(larger.Fill({{"twice", true, data}, {"twice", true, data}}, 0, 1)),
              HasSubstr("'twice'"));
  EXPECT_TRUE(larger.Fill({{"same", true, data}, {"same", false, data}}, 0, 1).ok());
  EXPECT_EQ(larger.Fill({{"", true, data}}, 0, 1).code(), StatusCode::kInvalidArgument);
}

TEST(Arena, AnItemsTypeFitsItsBytes) {
  const std::vector<std::byte> memory(24);
  Arena arena(100);
  EXPECT_EQ(Message(arena.Fill({{"w", true, memory, {"F32", {5}}}}, 0, 1)),
            "the checkpoint item 'w' has 24 bytes, F32 [5] has 20");
  ASSERT_TRUE(arena.Fill({{"w", true, memory, {"F32", {2, 3}}}}, 0, 1).ok());
  EXPECT_EQ(*arena.entry(0).type, (TensorType{"F32", {2, 3}}));
}

v1::SaveChunk FieldsOf(const std::string& data) {
  v1::SaveChunk chunk;
  chunk.set_epoch(3);
  chunk.set_step(40);
  chunk.set_rank(1);
  chunk.set_incarnation(99);
  chunk.set_item("model/weight");
  chunk.set_scope(v1::SCOPE_SHARED);
  chunk.set_item_bytes(data.size());
  chunk.set_checksum(Digest(std::as_bytes(std::span(data))));
  chunk.set_dtype("F32");
  chunk.add_shape(data.size() / 4);
  return chunk;
}

std::string BytesOf(const grpc::ByteBuffer& message) {
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(message.Dump(&slices).ok());
  std::string bytes;
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return bytes;
}

TEST(ChunkMessage, IsTheSameMessage) {
  for (const size_t size : {0u, 1u, 127u, 128u, 20'000u, 1u << 20}) {
    const std::string data(size, 'x');
    v1::SaveChunk expected = FieldsOf(data), read;
    const auto message =
        ChunkMessage(expected, std::as_bytes(std::span(data)), std::make_shared<int>());
    expected.set_data(data);
    ASSERT_TRUE(read.ParseFromString(BytesOf(message))) << size;
    EXPECT_EQ(read.SerializeAsString(), expected.SerializeAsString()) << size;
  }
}

TEST(ChunkMessage, KeepsTheMemoryOfItsBytesAsLongAsItIsThere) {
  auto memory = std::make_shared<std::string>(20'000, 'y');
  const std::weak_ptr<std::string> kept = memory;
  {
    const auto message = ChunkMessage(FieldsOf(*memory), std::as_bytes(std::span(*memory)), memory);
    memory.reset();
    EXPECT_FALSE(kept.expired());
    EXPECT_EQ(BytesOf(message).substr(message.Length() - 20'000), std::string(20'000, 'y'));
  }
  EXPECT_TRUE(kept.expired());
}

}  // namespace
}  // namespace ringwood
