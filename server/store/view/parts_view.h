// Checkpoints that several stores share, as their directories have them: opened read-only.
#pragma once

#include <rocksdb/db.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "server/store/checkpoint_reader.h"

namespace ringwood {

// The further stores that are in some stores' directories.
class PartsView {
 public:
  // Those that are no such stores are left out.
  static StatusOr<PartsView> Open(const std::vector<std::string>& store_dirs);

  // Refused: a part of this checkpoint is in none of them. Says where it is, and the remedy.
  Status CheckThere(const v1::CheckpointManifest& whole) const;

  // One chunk's bytes, checked, of a checkpoint of the main store `main` or of a part of it.
  StatusOr<std::string> Chunk(const CheckpointReader& main, const v1::CheckpointManifest& whole,
                              const v1::StoredItem& item, const v1::StoredChunk& chunk) const;
  // Reads all of it. Corrupt names the first item that is damaged.
  Status Verify(const CheckpointReader& main, const v1::CheckpointManifest& whole,
                const ReadProgress& progress = {}) const;

 private:
  struct Further {
    std::unique_ptr<rocksdb::DB> db;
    std::string name;
  };
  StatusOr<CheckpointReader> ReaderOf(const v1::CheckpointPart& part) const;

  std::map<uint64_t, Further> stores_;  // by their numbers
};

}  // namespace ringwood
