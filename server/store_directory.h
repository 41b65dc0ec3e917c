// The directory that a server keeps things in: its format is checked before anything is opened.
//
//   DIR/FORMAT        "ringwood-store 1"
//   DIR/coordinator   the coordinator's RocksDB
//   DIR/checkpoints   the store's RocksDB
#pragma once

#include <string>

#include "base/status.h"

namespace rocksdb {
class Status;
struct Options;
}  // namespace rocksdb

namespace ringwood {

inline constexpr int kStoreFormat = 1;

// Creates the directory where there is none (or an empty one) and checks the format where there is
// one: Refused for a store of another version, and for a directory that is not a store.
Status PrepareStore(const std::string& directory);

// The same check without creating anything; NotFound where there is no store.
Status CheckStore(const std::string& directory);

// RocksDB's error in our words. `what` names the store; a locked one tells the remedy.
Status FromRocks(const rocksdb::Status& status, const std::string& what);

// The settings that both databases share: a flipped byte in the log is an error and not the silent
// end of it, logs are accounted for, files are checked at open.
rocksdb::Options SafeOptions();

}  // namespace ringwood
