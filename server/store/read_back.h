// Reads a checkpoint's stripes back from the disk, past the page cache where the file system can,
// and compares them with what the workers sent.
#pragma once

#include <rocksdb/db.h>
#include <rocksdb/env.h>

#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "ringwood/v1/store.pb.h"
#include "server/store/checkpoint_reader.h"

namespace ringwood {

// The tables that have chunks of this checkpoint alone, as its stripes do. Those that RocksDB has
// merged with others are not among them.
std::vector<std::string> TablesOf(rocksdb::DB* db, const CheckpointId& id);

// Every chunk in the checkpoint's own stripes, table after table. `other` is asked about chunks
// that are in none of these tables: it compares one by itself. Chunks with a home elsewhere were
// compared when they were named. Corrupt names the first that is damaged or missing.
Status CompareStripes(
    const v1::CheckpointManifest& manifest, const std::vector<std::string>& tables,
    rocksdb::Env* env, const ReadProgress& progress,
    const std::function<Status(const v1::StoredItem&, const v1::StoredChunk&)>& other);

}  // namespace ringwood
