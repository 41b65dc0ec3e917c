#include "server/coordinator/coord_store.h"

#include <rocksdb/db.h>
#include <rocksdb/write_batch.h>

#include <cstdlib>

#include "server/coordinator/kept_record.h"
#include "server/store/database.h"
#include "server/store/sealed.h"
#include "server/store/store_directory.h"

namespace ringwood {
namespace {

constexpr char kKey[] = "epoch";

class RocksCoordStore : public CoordStore {
 public:
  RocksCoordStore(std::unique_ptr<rocksdb::DB> db, const std::string& directory,
                  const std::string& key)
      : db_(std::move(db)),
        directory_(directory),
        key_(key),
        name_("the coordinator's store " + directory) {}

  StatusOr<v1::EpochRecord> Load() override {
    std::string value;
    const rocksdb::Status got = db_->Get(rocksdb::ReadOptions(), kKey, &value);
    if (!got.IsNotFound()) {
      RW_RETURN_IF_ERROR(FromRocks(got, name_));
      RW_ASSIGN_OR_RETURN(kept_, Unseal<v1::EpochRecord>(value, "the coordinator's record"));
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
    if (refuses_) refuses_ = !db_->Resume().ok();  // the cause may be gone
    rocksdb::WriteBatch batch;
    batch.Put(kKey, Seal(WithoutIncarnations(record, key_)));
    const rocksdb::Status put = WriteDurably(db_.get(), &batch);
    refuses_ = !put.ok();
    RW_RETURN_IF_ERROR(FromRocks(put, name_));
    RW_RETURN_IF_ERROR(WriteWitness(directory_, std::to_string(record.epoch())));
    kept_ = record;
    return OkStatus();
  }

 private:
  std::unique_ptr<rocksdb::DB> db_;
  const std::string directory_;
  const std::string key_;
  const std::string name_;
  bool refuses_ = false;  // after a failed write, until it is told to resume
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
                                                     const std::string& key, Duration patience) {
  RW_ASSIGN_OR_RETURN(auto db, OpenDatabase(SafeOptions(), directory,
                                            "the coordinator's store " + directory, patience));
  auto store = std::make_unique<RocksCoordStore>(std::move(db), directory, key);
  RW_RETURN_IF_ERROR(store->Load().status());
  return std::unique_ptr<CoordStore>(std::move(store));
}

std::unique_ptr<CoordStore> MakeMemoryCoordStore() { return std::make_unique<MemoryCoordStore>(); }

}  // namespace ringwood
