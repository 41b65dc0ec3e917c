// Checkpoints in RocksDB. A checkpoint is real from the moment its manifest is written, last:
//
//   stripes: StripeWriter → Ingest (durable, but nobody knows them)
//   all stripes there → read back and verified → manifest + latest in one synced batch → flush
//   → older ones removed, never below two
//
// Used on one thread. A full disk or a bad one fails the checkpoint in hand and nothing else.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/status.h"
#include "server/checkpoint_reader.h"
#include "server/event.h"
#include "server/manifest.h"
#include "server/stripe_writer.h"

namespace ringwood {

class CheckpointStore {
 public:
  // `directory` is made where there is none. Removes what never became a checkpoint.
  static StatusOr<std::unique_ptr<CheckpointStore>> Open(const std::string& directory);

  const CheckpointReader& reader() const { return reader_; }

  StatusOr<std::unique_ptr<StripeWriter>> NewStripe(const CheckpointId& id, uint32_t rank);

  // Takes a finished stripe's file in; durable when it returns.
  Status Ingest(StripeWriter* stripe);

  // Makes the checkpoint real, see above. `manifest` is from Assemble, with its names filled in.
  Status Publish(const v1::CheckpointManifest& manifest);

  // The newest checkpoint of `job` (0: of any) whose every byte is right; damaged ones are passed
  // over loudly.
  StatusOr<std::optional<CheckpointBase>> NewestGood(uint64_t job) const;

  // Removes the chunks of a checkpoint that failed. Best effort: Open does it again.
  void Drop(const CheckpointId& id);

 private:
  CheckpointStore(std::unique_ptr<rocksdb::DB> db, const std::string& directory);

  Status Clean();
  Status Prune(uint64_t job);
  Status Recover(Status failed);
  void TryAgain();

  std::unique_ptr<rocksdb::DB> db_;
  const std::string directory_;
  const CheckpointReader reader_;
  uint64_t next_file_ = 0;
  // After a failed write RocksDB refuses further ones until it is told that the cause may be gone.
  bool refuses_ = false;
};

}  // namespace ringwood
