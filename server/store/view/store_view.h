// What a store holds, for people and tools: opened read-only, also while a server runs.
#pragma once

#include <rocksdb/db.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "server/store/checkpoint_reader.h"

namespace ringwood {

// The store as it was when it was opened.
class StoreView {
 public:
  // NotFound if there is no store, Refused for another format.
  static StatusOr<StoreView> Open(const std::string& store_dir);

  CheckpointReader reader() const { return CheckpointReader(db_.get(), name_); }

 private:
  StoreView(std::unique_ptr<rocksdb::DB> db, std::string name)
      : db_(std::move(db)), name_(std::move(name)) {}
  std::unique_ptr<rocksdb::DB> db_;
  std::string name_;
};

// A database, to read only.
StatusOr<std::unique_ptr<rocksdb::DB>> OpenToRead(const std::string& directory,
                                                  const std::string& name);

struct CheckpointSummary {
  uint64_t step = 0;
  uint64_t epoch = 0;
  uint64_t job = 0;
  uint64_t bytes = 0;
  uint64_t stored_bytes = 0;  // of them, in its own stripes; the others lie with older checkpoints
  int world = 0;
  int stores = 1;  // among which it is divided
  int64_t unix_seconds = 0;
  bool complete = false;
  bool damaged = false;  // it was complete; its manifest cannot be read any more
  bool unread = false;   // the server has not read it back from the disk, or found it damaged then
  bool pinned = false;
  std::string label;    // of the pin
  std::string problem;  // why it cannot be used; empty: none found (Verify checks the bytes)
};

// Newest first; incomplete ones too, but for those of which only what others have from them is
// left. Without pins, which are beside the database.
StatusOr<std::vector<CheckpointSummary>> Summarize(const CheckpointReader& reader);

// The same with pins.
StatusOr<std::vector<CheckpointSummary>> ListCheckpoints(const std::string& store_dir);

// The manifest of the newest one that is meant.
StatusOr<v1::CheckpointManifest> ShowCheckpoint(const std::string& store_dir,
                                                const WantedCheckpoint& wanted);

// Reads every byte; Corrupt names the first damaged item. `further`: where parts of it are, beside
// the store's own directory.
Status VerifyCheckpoint(const std::string& store_dir, const WantedCheckpoint& wanted,
                        const ReadProgress& progress = {},
                        const std::vector<std::string>& further = {});

// Why a long read of `id` failed: a server may have removed that checkpoint meanwhile.
Status ExplainRead(const std::string& store_dir, const CheckpointId& id, const Status& failed);

}  // namespace ringwood
