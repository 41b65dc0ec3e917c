// Writes one worker's stripe: a sorted table file beside the database, chunk after chunk, synced by
// Finish and then added to the database as it is (no second write). The pieces of a long manifest
// are such a stripe too.
#pragma once

#include <rocksdb/env.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/status.h"
#include "ringwood/v1/store.pb.h"
#include "server/store/record/checkpoint_key.h"
#include "server/store/record/chunk_index.h"
#include "server/store/record/manifest.h"

namespace rocksdb {
class SstFileWriter;
}

namespace ringwood {

class StripeWriter {
 public:
  // Where an earlier checkpoint has just these bytes; nothing: nowhere. Any thread.
  using FindHome =
      std::function<std::optional<ChunkPlace>(uint64_t digest, const std::string& bytes)>;

  // `path`: a new file on the database's file system, which `env` is. With `find_home` a chunk that
  // has one is named and not written.
  static StatusOr<std::unique_ptr<StripeWriter>> Create(const CheckpointId& id, uint32_t rank,
                                                        const std::string& path,
                                                        rocksdb::Env* env = rocksdb::Env::Default(),
                                                        FindHome find_home = nullptr);
  ~StripeWriter();  // removes the file unless it was moved

  // Checks the chunk's numbers and digest, and writes it.
  Status Add(const v1::SaveChunk& chunk);

  // A row as it is, at the next place of the stripe.
  Status Put(const std::string& bytes);

  // Syncs the file. An empty stripe (a worker may own nothing new) leaves none: see empty().
  Status Finish();

  bool empty() const { return sequence_ == 0; }
  uint64_t bytes() const { return bytes_; }
  uint64_t written_bytes() const { return written_bytes_; }  // of them, that have no home elsewhere
  uint64_t listed_bytes() const { return listed_bytes_; }    // about: of its part of the manifest
  const std::string& path() const { return path_; }
  Stripe TakeItems();

 private:
  StripeWriter(const CheckpointId& id, uint32_t rank, std::string path, rocksdb::Env* env,
               FindHome find_home);
  StatusOr<ChunkPlace> Store(const v1::SaveChunk& chunk);

  const CheckpointId id_;
  const uint32_t rank_;
  const std::string path_;
  rocksdb::Env* const env_;
  const FindHome find_home_;
  std::unique_ptr<rocksdb::SstFileWriter> file_;
  std::map<std::pair<int, std::string>, v1::StoredItem> items_;  // by (scope, name)
  uint32_t sequence_ = 0;
  uint64_t bytes_ = 0;
  uint64_t written_bytes_ = 0;
  uint64_t listed_bytes_ = 0;
};

}  // namespace ringwood
