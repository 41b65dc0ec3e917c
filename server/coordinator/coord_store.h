// The coordinator's durable state: the record of the newest epoch. It is small on purpose, so that
// a replicated store can hold it as well as a local disk.
#pragma once

#include <memory>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "ringwood/v1/state.pb.h"
#include "server/store/lock_patience.h"

namespace rocksdb {
class Env;
}

namespace ringwood {

class CoordStore {
 public:
  virtual ~CoordStore() = default;

  // The newest record, or an empty one (epoch 0). Corrupt if it is damaged.
  virtual StatusOr<v1::EpochRecord> Load() = 0;

  // Durable when it returns. Epochs never decrease: Refused as CheckNewer says.
  virtual Status Save(const v1::EpochRecord& record) = 0;

  // Writes the newest record again where its files were deleted, as BeginAnew allows; else it does
  // nothing. Any thread.
  virtual Status Keep() { return OkStatus(); }
};

// RocksDB in `directory` (one process at a time); every Save is one synced WriteBatch.
// Incarnations identify a process like a password, so they are stored only as hashes keyed with
// `key`. `patience`: as for OpenDatabase. `env`: as for SafeOptions; null: RocksDB's own.
StatusOr<std::unique_ptr<CoordStore>> OpenCoordStore(const std::string& directory,
                                                     const std::string& key,
                                                     const LockPatience& patience = {},
                                                     rocksdb::Env* env = nullptr);

// For servers without a store: in memory only.
std::unique_ptr<CoordStore> MakeMemoryCoordStore();

}  // namespace ringwood
