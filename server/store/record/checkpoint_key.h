// Names of checkpoints and of their rows in the store's RocksDB.
//
//   c EPOCH STEP RANK SEQUENCE   a chunk's bytes; of kManifestRank a piece of a long manifest
//   i                            the sealed StoreIdentity of a store that shares checkpoints
//   l                            CheckpointId of the newest complete checkpoint
//   m EPOCH STEP                 the sealed CheckpointManifest, or the head of a long one; the
//                                checkpoint exists iff this row does
//   u EPOCH STEP                 its stripes have not been read back from the disk yet
//
// Numbers are big-endian, so that the order of keys is the order of the numbers.
//
// Checkpoints order by (epoch, step): epochs never decrease in a store, so a later epoch's is newer
// even if it went back to an earlier step.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>

namespace ringwood {

struct CheckpointId {
  uint64_t epoch = 0;
  uint64_t step = 0;
  auto operator<=>(const CheckpointId&) const = default;
};

std::string Text(const CheckpointId& id);  // "step 12 (epoch 3)", for people

// A checkpoint as somebody names it: what is not said may be anything, and the newest is meant.
struct WantedCheckpoint {
  std::optional<uint64_t> step;
  uint64_t epoch = 0;  // 0: not said, as no epoch has this number

  WantedCheckpoint() = default;
  // One of just this name; {} names none.
  WantedCheckpoint(const CheckpointId& id)
      : step(id == CheckpointId{} ? std::nullopt : std::optional(id.step)), epoch(id.epoch) {}
  WantedCheckpoint(uint64_t of_epoch, uint64_t of_step)
      : WantedCheckpoint(CheckpointId{of_epoch, of_step}) {}

  bool Is(const CheckpointId& id) const {
    return (epoch == 0 || id.epoch == epoch) && id.step == step.value_or(id.step);
  }
};

// A complete checkpoint that a job can continue from.
struct CheckpointBase {
  uint64_t job = 0;
  uint64_t epoch = 0;
  uint64_t step = 0;
  uint32_t world = 0;
  uint64_t logged_steps = 0;  // the rounds after it that are in the update log
};

// No worker has it: what lies under it comes and goes with the checkpoint's chunks.
inline constexpr uint32_t kManifestRank = 0xffffffff;

std::string ManifestKey(const CheckpointId& id);
std::string UnreadKey(const CheckpointId& id);
std::string ChunkKey(const CheckpointId& id, uint32_t rank, uint32_t sequence);
// Every chunk key of `id` is in [FirstChunkKey, EndChunkKey).
std::string FirstChunkKey(const CheckpointId& id);
std::string EndChunkKey(const CheckpointId& id);
inline const std::string kLatestKey = "l";
inline const std::string kIdentityKey = "i";

// The id in a key of that kind (the first letter); false for any other key.
bool ParseKey(const std::string& key, char kind, CheckpointId* id);

// Which chunk of its checkpoint a chunk's key names: its rank, then its sequence, as one number in
// the order of keys.
uint64_t PlaceInCheckpoint(uint32_t rank, uint32_t sequence);
uint64_t PlaceInCheckpoint(const std::string& chunk_key);

}  // namespace ringwood
