#include "server/store/read_back.h"

#include <rocksdb/iterator.h>
#include <rocksdb/metadata.h>
#include <rocksdb/options.h>
#include <rocksdb/sst_file_reader.h>

#include <algorithm>
#include <memory>
#include <span>

#include "absl/strings/str_format.h"
#include "base/digest.h"
#include "server/store/database.h"
#include "server/store/record/manifest.h"

namespace ringwood {
namespace {

// A chunk in the checkpoint's own stripes.
struct OwnChunk {
  uint64_t place;  // in the checkpoint
  const v1::StoredItem* item;
  const v1::StoredChunk* chunk;
  bool read = false;
};

// In the order of their places.
std::vector<OwnChunk> OwnChunksOf(const v1::CheckpointManifest& manifest) {
  const CheckpointId id{manifest.epoch(), manifest.step()};
  std::vector<OwnChunk> chunks;
  for (const v1::StoredItem& item : manifest.items()) {
    for (const v1::StoredChunk& chunk : item.chunks()) {
      if (chunk.part() != 0) continue;  // in a further store
      const ChunkPlace place = PlaceOf(id, chunk);
      if (place.home != id) continue;
      chunks.push_back({PlaceInCheckpoint(place.rank, place.sequence), &item, &chunk});
    }
  }
  std::ranges::sort(chunks, {}, &OwnChunk::place);
  return chunks;
}

// O_DIRECT takes a seventh of the processor time, and what it reads is what the disk has. Not every
// file system has it (tmpfs).
StatusOr<std::unique_ptr<rocksdb::SstFileReader>> OpenTable(const std::string& path,
                                                            rocksdb::Env* env) {
  rocksdb::Options options = SafeOptions(env);
  options.use_direct_reads = true;
  auto table = std::make_unique<rocksdb::SstFileReader>(options);
  if (table->Open(path).ok()) return table;
  options.use_direct_reads = false;
  table = std::make_unique<rocksdb::SstFileReader>(options);
  RW_RETURN_IF_ERROR(FromRocks(table->Open(path), "cannot read " + path));
  return table;
}

Status Compare(const OwnChunk& own, const rocksdb::Slice& row, const std::string& path) {
  if (Digest(std::as_bytes(std::span(row.data(), row.size()))) == own.chunk->digest()) {
    return OkStatus();
  }
  return Corrupt(absl::StrFormat(
      "bytes %d to %d of item \"%s\" were damaged when they were read "
      "back from %s",
      own.chunk->offset(), own.chunk->offset() + own.chunk->bytes(), own.item->name(), path));
}

}  // namespace

std::vector<std::string> TablesOf(rocksdb::DB* db, const CheckpointId& id) {
  std::vector<rocksdb::LiveFileMetaData> files;
  if (db != nullptr) db->GetLiveFilesMetaData(&files);
  std::vector<std::string> tables;
  for (const rocksdb::LiveFileMetaData& file : files) {
    if (file.smallestkey < FirstChunkKey(id) || file.largestkey >= EndChunkKey(id)) continue;
    tables.push_back(file.directory + "/" + file.relative_filename);
  }
  return tables;
}

Status CompareStripes(
    const v1::CheckpointManifest& manifest, const std::vector<std::string>& tables,
    rocksdb::Env* env, const ReadProgress& progress,
    const std::function<Status(const v1::StoredItem&, const v1::StoredChunk&)>& other) {
  const CheckpointId id{manifest.epoch(), manifest.step()};
  std::vector<OwnChunk> own = OwnChunksOf(manifest);
  uint64_t done = 0;
  const auto read = [&](OwnChunk* chunk) {
    chunk->read = true;
    done += chunk->chunk->bytes();
    return progress ? progress(id, done, manifest.bytes()) : OkStatus();
  };
  rocksdb::ReadOptions once;
  once.fill_cache = false;
  for (const std::string& path : tables) {
    const auto table = OpenTable(path, env);
    if (table.status().code() == StatusCode::kDataLoss) return table.status();
    if (!table.ok()) continue;  // RocksDB has merged it with others since then
    const std::unique_ptr<rocksdb::Iterator> row((*table)->NewIterator(once));
    for (row->SeekToFirst(); row->Valid(); row->Next()) {
      const std::string key = row->key().ToString();
      const auto chunk =
          std::ranges::lower_bound(own, PlaceInCheckpoint(key), {}, &OwnChunk::place);
      const bool known =
          chunk != own.end() && key == ChunkKey(id, static_cast<uint32_t>(chunk->place >> 32),
                                                static_cast<uint32_t>(chunk->place));
      if (!known) continue;  // a piece of the manifest
      RW_RETURN_IF_ERROR(Compare(*chunk, row->value(), path));
      RW_RETURN_IF_ERROR(read(&*chunk));
    }
    RW_RETURN_IF_ERROR(FromRocks(row->status(), "cannot read back " + path));
  }
  for (OwnChunk& chunk : own) {
    if (chunk.read) continue;
    RW_RETURN_IF_ERROR(other(*chunk.item, *chunk.chunk));
    RW_RETURN_IF_ERROR(read(&chunk));
  }
  return OkStatus();
}

}  // namespace ringwood
