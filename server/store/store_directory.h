// The directory of a server's store: its format is checked before anything is opened.
//
//   DIR/FORMAT        "ringwood-store 2", or 3
//   DIR/coordinator   the coordinator's RocksDB
//   DIR/checkpoints   the store's RocksDB
//   DIR/parts/INDEX   of a server that keeps parts of the checkpoints of another store: that
//   RocksDB
//
// So servers of one job may have the same DIR, on one host or each on its own.
#pragma once

#include <rocksdb/env.h>

#include <string>
#include <vector>

#include "base/status.h"

namespace ringwood {

// 1 is read and written as well: there no two checkpoints share a chunk (homes.h).
inline constexpr int kStoreFormat = 2;
// Of a store that shares checkpoints with others (record/parts.h), from the first one on.
inline constexpr int kDividedFormat = 3;
inline constexpr int kOldestStoreFormat = 1;

// Creates the directory if it is missing or empty, accessible to its owner only; else checks its
// format: Refused for a store of another version, for a directory that is not a store, and for one
// that another user owns or may write to. A store of an older format becomes one of this format, as
// versions that know only the older one would remove what checkpoints share.
Status PrepareStore(const std::string& directory, rocksdb::Env* env = rocksdb::Env::Default());

// The same for a server that opens the store later, if at all: one that is there keeps its format,
// and another server may make it at the same moment.
Status PrepareStoreAhead(const std::string& directory);

// As a store that shares checkpoints, from now on: a version that does not know this refuses it,
// and does not take its checkpoints for damaged ones.
Status MarkDivided(const std::string& directory, rocksdb::Env* env = rocksdb::Env::Default());

// The folder of a further store's database in a store's directory, made where it is missing.
std::string PartsFolder(const std::string& directory, int index);
Status PreparePartsFolder(const std::string& directory, int index,
                          rocksdb::Env* env = rocksdb::Env::Default());
// Those that there are.
std::vector<std::string> PartsFolders(const std::string& directory);

// The same check without creating anything; NotFound where there is no store.
Status CheckStore(const std::string& directory);

// Whether a database's files are there; not so when they were deleted under it, or their disk is
// gone.
bool HasDatabase(const std::string& database);

// Lets a database that is gone while a server runs be made anew: where its folder, or that of the
// store around it, is there again and empty. Else Unavailable, with `meanwhile`, what holds until
// then, and what to do.
Status BeginAnew(const std::string& database, const std::string& meanwhile,
                 rocksdb::Env* env = rocksdb::Env::Default());

// Replaces a file atomically: after a crash it has the old content or the new one. Durable when it
// returns. Follows no link, in a directory that only its owner can write to.
Status ReplaceFile(const std::string& path, const std::string& content,
                   rocksdb::Env* env = rocksdb::Env::Default());

// An empty directory of that name, with which files of an earlier process are gone. Not durable.
Status EmptyDirectory(const std::string& directory, rocksdb::Env* env);

// The witness of a database: the newest thing that the database must know, in a file beside it.
// RocksDB takes a cut MANIFEST for a shorter history and then removes the files it does not know;
// the witness detects that before anything is opened for writing. "" if it is missing or damaged
// (logged; the database itself is checked on its own).
Status WriteWitness(const std::string& directory, const std::string& newest,
                    rocksdb::Env* env = rocksdb::Env::Default());
std::string ReadWitness(const std::string& directory);

}  // namespace ringwood
