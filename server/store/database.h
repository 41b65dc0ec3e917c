// RocksDB as both databases of a server use it: how it is opened and written, and its errors.
//
// Every operation that changes a store's files goes through one rocksdb::Env, which outlives what
// it is given to: RocksDB's default, or in tests one whose disk fails.
#pragma once

#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/options.h>

#include <memory>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "server/store/lock_patience.h"

namespace ringwood {

// Translates RocksDB's error. `what` names the store; for a locked one the message tells how to fix
// it.
Status FromRocks(const rocksdb::Status& status, const std::string& what);

// The settings of both databases: a flipped byte in the log is an error and not its silent end,
// logs are tracked, files are checked at open and take no more room than their content. After a
// failed write the owner opens the database again, or, where it takes no tables in, calls Resume,
// which does not come back from an I/O error. RocksDB itself tries nothing.
rocksdb::Options SafeOptions(rocksdb::Env* env = rocksdb::Env::Default());

// One batch, durable when it returns.
rocksdb::Status WriteDurably(rocksdb::DB* db, rocksdb::WriteBatch* batch);

// A write that need not survive a crash: it does not use the log, so a disk cannot fail it.
rocksdb::WriteOptions Unlogged();

// Opens for writing. Waits with `patience` for a database that another process holds, with
// AwaitLock's errors.
StatusOr<std::unique_ptr<rocksdb::DB>> OpenDatabase(const rocksdb::Options& options,
                                                    const std::string& directory,
                                                    const std::string& what,
                                                    const LockPatience& patience);

// The same for a database with a second column family, which is made where it is missing.
struct Database {
  std::unique_ptr<rocksdb::DB> db;
  rocksdb::ColumnFamilyHandle* second = nullptr;  // until the database is closed
};
StatusOr<Database> OpenDatabase(const rocksdb::Options& options, const std::string& directory,
                                const rocksdb::ColumnFamilyDescriptor& second,
                                const std::string& what, const LockPatience& patience);

}  // namespace ringwood
