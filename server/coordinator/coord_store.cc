#include "server/coordinator/coord_store.h"

#include <rocksdb/db.h>
#include <rocksdb/write_batch.h>

#include <cstdlib>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/coordinator/kept_record.h"
#include "server/store/database.h"
#include "server/store/record/sealed.h"
#include "server/store/store_directory.h"

namespace ringwood {
namespace {

constexpr char kKey[] = "epoch";

class RocksCoordStore : public CoordStore {
 public:
  RocksCoordStore(const std::string& directory, const std::string& key, rocksdb::Env* env)
      : env_(env),
        directory_(directory),
        key_(key),
        name_("the coordinator's store " + directory) {}

  Status Open(const LockPatience& patience) {
    const absl::MutexLock lock(&mutex_);
    return Reopen(patience);
  }

  StatusOr<v1::EpochRecord> Load() override {
    const absl::MutexLock lock(&mutex_);
    if (db_ == nullptr) return kept_;
    std::string value;
    const rocksdb::Status got = db_->Get(rocksdb::ReadOptions(), kKey, &value);
    if (!got.IsNotFound()) {
      RW_RETURN_IF_ERROR(FromRocks(got, name_));
      RW_ASSIGN_OR_RETURN(kept_, Unseal<v1::EpochRecord>(value, "the record in " + name_));
      sealed_ = value;
    }
    const std::string witness = ReadWitness(directory_);
    if (!witness.empty() && kept_.epoch() < std::strtoull(witness.c_str(), nullptr, 10)) {
      return Corrupt(name_ + " has forgotten epoch " + witness +
                     ": its files were cut or replaced; bring the directory back from a copy, or "
                     "give another --store");
    }
    return kept_;
  }

  Status Save(const v1::EpochRecord& record) override {
    const absl::MutexLock lock(&mutex_);
    RW_RETURN_IF_ERROR(CheckNewer(kept_, record));
    const std::string sealed = Seal(WithoutIncarnations(record, key_));
    RW_RETURN_IF_ERROR(Write(sealed, record.epoch()));
    kept_ = record;
    sealed_ = sealed;
    return OkStatus();
  }

  Status Keep() override {
    const absl::MutexLock lock(&mutex_);
    return sealed_.empty() || HasDatabase(directory_) ? OkStatus() : Write(sealed_, kept_.epoch());
  }

 private:
  Status Write(const std::string& sealed, uint64_t epoch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const bool gone = !HasDatabase(directory_);
    if (gone) RW_RETURN_IF_ERROR(BeginAnew(directory_, "and no epoch begins", env_));
    if (broken_ || gone) RW_RETURN_IF_ERROR(Reopen(Duration::zero()));  // the cause may be gone
    rocksdb::WriteBatch batch;
    batch.Put(kKey, sealed);
    const rocksdb::Status put = WriteDurably(db_.get(), &batch);
    broken_ = !put.ok();
    RW_RETURN_IF_ERROR(FromRocks(put, name_));
    return WriteWitness(directory_, std::to_string(epoch), env_);
  }
  Status Reopen(const LockPatience& patience) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    db_.reset();
    RW_ASSIGN_OR_RETURN(db_, OpenDatabase(SafeOptions(env_), directory_, name_, patience));
    return OkStatus();
  }

  rocksdb::Env* const env_;
  const std::string directory_;
  const std::string key_;
  const std::string name_;
  absl::Mutex mutex_;
  std::unique_ptr<rocksdb::DB> db_ ABSL_GUARDED_BY(mutex_);
  // A write failed: RocksDB refuses further ones until it is opened again.
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;
  v1::EpochRecord kept_ ABSL_GUARDED_BY(mutex_);
  std::string sealed_ ABSL_GUARDED_BY(mutex_);  // the same as it is on the disk; "": none is
};

class MemoryCoordStore : public CoordStore {
 public:
  StatusOr<v1::EpochRecord> Load() override { return kept_; }
  Status Save(const v1::EpochRecord& record) override {
    RW_RETURN_IF_ERROR(CheckNewer(kept_, record));
    kept_ = record;
    return OkStatus();
  }

 private:
  v1::EpochRecord kept_;
};

}  // namespace

StatusOr<std::unique_ptr<CoordStore>> OpenCoordStore(const std::string& directory,
                                                     const std::string& key,
                                                     const LockPatience& patience,
                                                     rocksdb::Env* env) {
  if (env == nullptr) env = rocksdb::Env::Default();
  auto store = std::make_unique<RocksCoordStore>(directory, key, env);
  RW_RETURN_IF_ERROR(store->Open(patience));
  RW_RETURN_IF_ERROR(store->Load().status());
  return std::unique_ptr<CoordStore>(std::move(store));
}

std::unique_ptr<CoordStore> MakeMemoryCoordStore() { return std::make_unique<MemoryCoordStore>(); }

}  // namespace ringwood
