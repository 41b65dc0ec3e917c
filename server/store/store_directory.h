// The directory of a server's store: its format is checked before anything is opened.
//
//   DIR/FORMAT        "ringwood-store 1"
//   DIR/coordinator   the coordinator's RocksDB
//   DIR/checkpoints   the store's RocksDB
#pragma once

#include <rocksdb/db.h>
#include <rocksdb/options.h>

#include <memory>
#include <string>

#include "base/clock.h"
#include "base/status.h"

namespace ringwood {

inline constexpr int kStoreFormat = 1;

// Creates the directory if it is missing or empty, accessible to its owner only; else checks its
// format: Refused for a store of another version, for a directory that is not a store, and for one
// that another user owns or may write to.
Status PrepareStore(const std::string& directory);

// The same check without creating anything; NotFound where there is no store.
Status CheckStore(const std::string& directory);

// Replaces a file atomically: after a crash it has the old content or the new one. Durable when it
// returns. Follows no link.
Status ReplaceFile(const std::string& path, const std::string& content);

// The witness of a database: the newest thing that the database must know, in a file beside it.
// RocksDB takes a cut MANIFEST for a shorter history and then removes the files it does not know;
// the witness detects that before anything is opened for writing. "" if it is missing or damaged
// (logged; the database itself is checked on its own).
Status WriteWitness(const std::string& directory, const std::string& newest);
std::string ReadWitness(const std::string& directory);

// Translates RocksDB's error. `what` names the store; for a locked one the message tells how to fix
// it.
Status FromRocks(const rocksdb::Status& status, const std::string& what);

// The settings of both databases: a flipped byte in the log is an error and not its silent end,
// logs are tracked, files are checked at open and take no more room than their content. After a
// failed write the owner calls Resume before it tries again.
rocksdb::Options SafeOptions();

// One batch, durable when it returns. An unlogged row is written first: Resume starts a new log
// only if the memtable holds something, and otherwise continues a log that a full disk has cut.
rocksdb::Status WriteDurably(rocksdb::DB* db, rocksdb::WriteBatch* batch);

// A write that need not survive a crash: it does not use the log, so a disk cannot fail it.
rocksdb::WriteOptions Unlogged();

// Opens for writing. Retries a database that another process holds until `patience` is over (a
// killed server keeps its lock until its last write ends): Refused without patience, Unavailable
// after it.
StatusOr<std::unique_ptr<rocksdb::DB>> OpenDatabase(const rocksdb::Options& options,
                                                    const std::string& directory,
                                                    const std::string& what, Duration patience);

}  // namespace ringwood
