#include "server/store/record/chunk_index.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "server/store/record/manifest.h"

namespace ringwood {
namespace {

// Of each home: the bytes that a checkpoint uses there, each chunk once.
std::map<CheckpointId, uint64_t> UseOf(std::map<ChunkPlace, uint32_t> places) {
  std::map<CheckpointId, uint64_t> use;
  for (const auto& [place, bytes] : places) use[place.home] += bytes;
  return use;
}

}  // namespace

ChunkPlace PlaceOf(const CheckpointId& id, const v1::StoredChunk& chunk) {
  return {HomeOf(id, chunk), chunk.rank(), chunk.sequence()};
}

ChunkIndex::ChunkIndex(const v1::CheckpointManifest& base) : base_{base.epoch(), base.step()} {
  std::map<ChunkPlace, uint32_t> places;
  for (const v1::StoredItem& item : base.items()) {
    for (const v1::StoredChunk& chunk : item.chunks()) {
      if (chunk.part() != 0) continue;  // in a further store
      const ChunkPlace place = PlaceOf(base_, chunk);
      const bool is_new = places.emplace(place, chunk.bytes()).second;
      // Without a digest it was saved by an older version.
      if (is_new && chunk.digest() != 0) rows_.push_back({chunk.digest(), chunk.bytes(), place});
    }
  }
  const auto use = UseOf(std::move(places));
  const auto consider = [&](const CheckpointId& home, uint64_t stored) {
    const auto used = use.find(home);
    if (used != use.end() && kLeastUse * used->second >= stored) homes_[home] = stored;
  };
  consider(base_, StoredBytes(base));
  for (const v1::HomeCheckpoint& home : base.homes()) {
    consider({home.epoch(), home.step()}, home.stored_bytes());
  }
  std::erase_if(rows_, [&](const Row& row) { return !homes_.contains(row.place.home); });
  std::sort(rows_.begin(), rows_.end(), [](const Row& a, const Row& b) {
    return std::tie(a.digest, a.bytes, a.place) < std::tie(b.digest, b.bytes, b.place);
  });
}

const ChunkPlace* ChunkIndex::Find(uint64_t digest, uint64_t bytes) const {
  const auto row = std::lower_bound(
      rows_.begin(), rows_.end(), std::pair(digest, bytes),
      [](const Row& row, const auto& wanted) { return std::pair(row.digest, row.bytes) < wanted; });
  const bool found = row != rows_.end() && row->digest == digest && row->bytes == bytes;
  return found ? &row->place : nullptr;
}

}  // namespace ringwood
