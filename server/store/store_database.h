// The RocksDB of a store, which is opened again after a failed write: RocksDB takes no other one
// then. Its Resume does not come back from an I/O error, and after it RocksDB 7.8 gives the next
// table that it takes in the number 0. What was promised is on the disk.
//
// Used on one thread, which writes. Others may read while they hold one of the two locks: the
// database is not closed under them.
#pragma once

#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/options.h>

#include <memory>
#include <string>

#include "absl/synchronization/mutex.h"
#include "base/clock.h"
#include "base/status.h"
#include "server/store/checkpoint_reader.h"
#include "server/store/lock_patience.h"

namespace ringwood {

class StoreDatabase {
 public:
  // `options`: from SafeOptions, whose Env outlives it.
  StoreDatabase(const rocksdb::Options& options, const std::string& directory);

  // For the first time. `patience`: as for OpenDatabase. Corrupt where the directory has lost the
  // newest checkpoint that was complete: nothing was changed then.
  Status Open(const LockPatience& patience);

  // Before every write. True: it was opened again, as a write had failed or its files were gone.
  // Unavailable while a long read goes on or the disk does not let it be opened.
  StatusOr<bool> MakeUsable();
  void Broke() { broken_ = true; }  // a write failed

  rocksdb::DB* get() const { return db_.get(); }               // null: it could not be opened again
  const CheckpointReader& reader() const { return *reader_; }  // which says so then
  const std::string& directory() const { return directory_; }
  std::string name() const;  // for errors
  rocksdb::Env* env() const { return options_.env; }

  // How often it was opened: what was read back before the last time may be elsewhere, as a store
  // that is deleted under way begins anew.
  uint64_t openings() const { return openings_; }

  // Held by reads that take long: MakeUsable does not wait for them.
  absl::Mutex* reading() const { return &reading_; }
  // Held by a read of a chunk: MakeUsable waits for it.
  absl::Mutex* opening() const { return &opening_; }

 private:
  Status CheckWitness() const;

  const rocksdb::Options options_;
  const std::string directory_;
  mutable absl::Mutex reading_, opening_;
  uint64_t openings_ = 0;
  std::unique_ptr<rocksdb::Env> guarded_;  // of db_
  std::unique_ptr<rocksdb::DB> db_;
  std::unique_ptr<CheckpointReader> reader_;
  bool broken_ = false;
};

}  // namespace ringwood
