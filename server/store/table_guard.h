// A file system for one opened database that deletes no table once a write of the MANIFEST failed.
//
// Nobody knows whether such a write has arrived. RocksDB 7.8 deletes a table whose ingestion failed
// in this way; a MANIFEST that names it after all cannot be opened again, and with it goes every
// checkpoint of the store. A table that is left over is removed when the database is opened again.
#pragma once

#include <rocksdb/env.h>

#include <memory>

namespace ringwood {

// Over the files of `env`, which outlives it. For one opening: what it has seen fail stays failed.
std::unique_ptr<rocksdb::Env> GuardTables(rocksdb::Env* env);

}  // namespace ringwood
