#include "server/coordinator/coord_store.h"

#include <rocksdb/db.h>
#include <rocksdb/write_batch.h>

#include <cstdlib>

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
    db_.reset();
    RW_ASSIGN_OR_RETURN(db_, OpenDatabase(SafeOptions(env_), directory_, name_, patience));
    return OkStatus();
  }

  StatusOr<v1::EpochRecord> Load() override {
    if (db_ == nullptr) return kept_;
    std::string value;
    const rocksdb::Status got = db_->Get(rocksdb::ReadOptions(), kKey, &value);
    if (!got.IsNotFound()) {
      RW_RETURN_IF_ERROR(FromRocks(got, name_));
      RW_ASSIGN_OR_RETURN(kept_, Unseal<v1::EpochRecord>(value, "the record in " + name_));
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
    RW_RETURN_IF_ERROR(CheckNewer(kept_, record));
    const bool gone = !HasDatabase(directory_);
    if (gone) RW_RETURN_IF_ERROR(BeginAnew(directory_, "and no epoch begins", env_));
    if (broken_ || gone) RW_RETURN_IF_ERROR(Open(Duration::zero()));  // the cause may be gone
    rocksdb::WriteBatch batch;
    batch.Put(kKey, Seal(WithoutIncarnations(record, key_)));
    const rocksdb::Status put = WriteDurably(db_.get(), &batch);
    broken_ = !put.ok();
    RW_RETURN_IF_ERROR(FromRocks(put, name_));
    RW_RETURN_IF_ERROR(WriteWitness(directory_, std::to_string(record.epoch()), env_));
    kept_ = record;
    return OkStatus();
  }

 private:
  rocksdb::Env* const env_;
  const std::string directory_;
  const std::string key_;
  const std::string name_;
  std::unique_ptr<rocksdb::DB> db_;
  bool broken_ = false;  // a write failed: RocksDB refuses further ones until it is opened again
  v1::EpochRecord kept_;
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
