// The chunks that the next checkpoint may have from earlier ones: those of one checkpoint, its
// base, by what they are. Fixed once made: any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "ringwood/v1/store.pb.h"
#include "server/store/record/checkpoint_key.h"
#include "server/store/record/homes.h"

namespace ringwood {

// Where a chunk lies.
struct ChunkPlace {
  CheckpointId home;
  uint32_t rank = 0;
  uint32_t sequence = 0;
  auto operator<=>(const ChunkPlace&) const = default;
};

ChunkPlace PlaceOf(const CheckpointId& id, const v1::StoredChunk& chunk);

class ChunkIndex {
 public:
  // A home of which the base uses less than half is left out: what it still uses of it is stored
  // again, and the home goes with its last user. So all that lies in the homes of a checkpoint is
  // at most twice what an earlier one had, however chunks change.
  static constexpr uint64_t kLeastUse = 2;  // 1 / kLeastUse

  explicit ChunkIndex(const v1::CheckpointManifest& base);

  // Where a chunk of that digest and length lies, which is likely to be the same; null: nowhere.
  const ChunkPlace* Find(uint64_t digest, uint64_t bytes) const;

  const CheckpointId& base() const { return base_; }
  const HomeSizes& homes() const { return homes_; }  // that Find can answer

 private:
  struct Row {
    uint64_t digest;
    uint64_t bytes;
    ChunkPlace place;
  };

  const CheckpointId base_;
  HomeSizes homes_;
  std::vector<Row> rows_;  // by digest and length
};

}  // namespace ringwood
