// Reads checkpoints from an open RocksDB. Every byte is checked by the digest that its worker sent
// with it when it was saved (RocksDB's own checks do not cover its block cache), or, where an older
// version saved it, by its SHA-256.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "ringwood/v1/parts.pb.h"
#include "ringwood/v1/store.pb.h"
#include "server/store/record/checkpoint_key.h"
#include "server/store/record/chunk_index.h"

namespace rocksdb {
class DB;
}

namespace ringwood {

// Called with the progress of a long read, in bytes; an error that it returns ends the read.
using ReadProgress = std::function<Status(const CheckpointId&, uint64_t done, uint64_t all)>;

// Any thread, as RocksDB is.
class CheckpointReader {
 public:
  // Without `db` every answer is Unavailable.
  CheckpointReader(rocksdb::DB* db, std::string name) : db_(db), name_(std::move(name)) {}

  Status CheckOpen() const;  // Unavailable: there is no database

  // Ids that have a manifest row, newest first; Head tells whether it can be read.
  StatusOr<std::vector<CheckpointId>> Complete() const;

  // Ids that have chunks, newest first: complete ones, those that never became complete, and those
  // that are gone but for what others have from them.
  StatusOr<std::vector<CheckpointId>> WithChunks() const;

  // Ids of complete checkpoints whose stripes have not been read back yet, newest first.
  StatusOr<std::vector<CheckpointId>> Unread() const;

  // What a checkpoint is; its items only where there are few. One row is read.
  StatusOr<v1::CheckpointManifest> Head(const CheckpointId& id) const;
  // The digest of that row.
  StatusOr<uint64_t> HeadDigest(const CheckpointId& id) const;
  // With all items. At most kMaxManifestBytes are read.
  StatusOr<v1::CheckpointManifest> Manifest(const CheckpointId& id) const;
  // The manifest of a head whose row may not be there yet.
  StatusOr<v1::CheckpointManifest> WithItems(v1::CheckpointManifest head) const;

  // The newest complete one that is meant. NotFound also where only another epoch has the step.
  StatusOr<CheckpointId> Resolve(const WantedCheckpoint& wanted) const;
  StatusOr<v1::CheckpointManifest> Find(const WantedCheckpoint& wanted) const;

  // One chunk's bytes, checked.
  StatusOr<std::string> Chunk(const CheckpointId& id, const v1::StoredItem& item,
                              const v1::StoredChunk& chunk) const;

  // Of a store that shares checkpoints; NotFound: this is none.
  StatusOr<v1::StoreIdentity> Identity() const;

  // Whether just these bytes lie there. A chunk that cannot be read is another.
  bool Holds(const ChunkPlace& place, const std::string& bytes) const;

  // Reads all of it that is in this store. Corrupt names the first item that is damaged.
  Status Verify(const v1::CheckpointManifest& manifest, const ReadProgress& progress = {}) const;

 private:
  StatusOr<std::vector<CheckpointId>> Ids(char kind) const;
  StatusOr<std::string> Row(const std::string& key, const std::string& what) const;

  rocksdb::DB* const db_;
  const std::string name_;
};

}  // namespace ringwood
