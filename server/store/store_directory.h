// The directory that a server keeps things in: its format is checked before anything is opened.
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

// Creates the directory where there is none (or an empty one), for its owner's eyes only, and
// checks the format where there is one: Refused for a store of another version, for a directory
// that is not a store, and for one that another user owns or may write to.
Status PrepareStore(const std::string& directory);

// The same check without creating anything; NotFound where there is no store.
Status CheckStore(const std::string& directory);

// Replaces a file as a whole: after a crash there is the old content or the new one. Durable when
// it returns. Follows no link.
Status ReplaceFile(const std::string& path, const std::string& content);

// A witness beside a database: the newest thing that it must know, in a file of its own. RocksDB
// takes a cut MANIFEST for a shorter history and then removes the files it does not know; with the
// witness that is found before anything is opened for writing. "" where there is none or a damaged
// one (said in the log: the database itself is checked on its own).
Status WriteWitness(const std::string& directory, const std::string& newest);
std::string ReadWitness(const std::string& directory);

// RocksDB's error in our words. `what` names the store; a locked one tells the remedy.
Status FromRocks(const rocksdb::Status& status, const std::string& what);

// The settings that both databases share: a flipped byte in the log is an error and not the silent
// end of it, logs are accounted for, files are checked at open and take the room of what is in
// them. After a failed write the owner calls Resume when it tries again.
rocksdb::Options SafeOptions();

// One batch, durable when it returns. An unlogged row goes before it: Resume starts a new log only
// where the memtable holds something, and goes on with one that a full disk has cut otherwise.
rocksdb::Status WriteDurably(rocksdb::DB* db, rocksdb::WriteBatch* batch);

// A write that need not outlive a crash: it never touches the log, and so never fails with the
// disk.
rocksdb::WriteOptions Unlogged();

// Opens for writing. A database that another process holds is asked for again until `patience` is
// over (a server that was killed keeps its lock until its last write ends): Refused without
// patience, Unavailable after it.
StatusOr<std::unique_ptr<rocksdb::DB>> OpenDatabase(const rocksdb::Options& options,
                                                    const std::string& directory,
                                                    const std::string& what, Duration patience);

}  // namespace ringwood
