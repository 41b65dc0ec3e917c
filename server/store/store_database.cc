#include "server/store/store_database.h"

#include <rocksdb/db.h>

#include "server/store/database.h"
#include "server/store/store_directory.h"
#include "server/store/table_guard.h"

namespace ringwood {

StoreDatabase::StoreDatabase(const rocksdb::Options& options, const std::string& directory)
    : options_(options), directory_(directory) {}

std::string StoreDatabase::name() const { return "the checkpoint store " + directory_; }

Status StoreDatabase::Open(const LockPatience& patience) {
  const absl::MutexLock lock(&opening_);
  const bool first = reader_ == nullptr;
  ++openings_;
  reader_ = std::make_unique<CheckpointReader>(nullptr, name());
  db_.reset();
  if (!first && !HasDatabase(directory_)) {
    RW_RETURN_IF_ERROR(BeginAnew(directory_, "training goes on", options_.env));
  }
  RW_RETURN_IF_ERROR(CheckWitness());
  rocksdb::Options options = options_;
  guarded_ = GuardTables(options_.env);
  options.env = guarded_.get();
  RW_ASSIGN_OR_RETURN(db_, OpenDatabase(options, directory_, name(), patience));
  reader_ = std::make_unique<CheckpointReader>(db_.get(), name());
  return OkStatus();
}

// The database must know the newest checkpoint that was reported complete. Looked at read-only:
// opening it for writing removes the files that it has forgotten.
Status StoreDatabase::CheckWitness() const {
  const std::string newest = ReadWitness(directory_);
  CheckpointId id;
  if (!ParseKey(newest, 'm', &id)) return OkStatus();
  rocksdb::DB* opened = nullptr;
  RW_RETURN_IF_ERROR(
      FromRocks(rocksdb::DB::OpenForReadOnly(options_, directory_, &opened), name()));
  const std::unique_ptr<rocksdb::DB> db(opened);
  RW_ASSIGN_OR_RETURN(const auto complete, CheckpointReader(db.get(), name()).Complete());
  if (!complete.empty() && complete.front() >= id) return OkStatus();
  return Corrupt(name() + " has lost the checkpoint of " + Text(id) +
                 ", which was complete: its files were cut or replaced. Nothing was changed; bring "
                 "the directory back from a copy, or give another --store");
}

StatusOr<bool> StoreDatabase::MakeUsable() {
  uint64_t failed_beside = 0;  // flushes of RocksDB's own, which no call of ours has seen fail
  if (db_) db_->GetIntProperty(rocksdb::DB::Properties::kBackgroundErrors, &failed_beside);
  broken_ |= failed_beside > 0 || !HasDatabase(directory_);
  if (!broken_) return false;
  if (!reading_.TryLock()) return Unavailable("a failed write waits for a check to end");
  const Status opened = Open(Duration::zero());
  reading_.Unlock();
  RW_RETURN_IF_ERROR(opened);
  options_.env->CreateDirIfMissing(directory_ + "/incoming");
  broken_ = false;
  return true;
}

}  // namespace ringwood
