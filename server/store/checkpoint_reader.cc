#include "server/store/checkpoint_reader.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_format.h"
#include "server/store/database.h"
#include "server/store/manifest.h"
#include "server/store/sealed.h"

namespace ringwood {

Status CheckpointReader::CheckOpen() const {
  if (db_ != nullptr) return OkStatus();
  return Unavailable(name_ + " failed and could not be opened again: see the server's log");
}

StatusOr<std::vector<CheckpointId>> CheckpointReader::Ids(char kind) const {
  RW_RETURN_IF_ERROR(CheckOpen());
  std::vector<CheckpointId> ids;
  std::unique_ptr<rocksdb::Iterator> row(db_->NewIterator(rocksdb::ReadOptions()));
  CheckpointId id;
  row->Seek(std::string(1, kind));
  while (row->Valid() && ParseKey(row->key().ToString(), kind, &id)) {
    ids.push_back(id);
    row->Seek(kind == 'c' ? EndChunkKey(id) : ManifestKey(id) + '\0');
  }
  RW_RETURN_IF_ERROR(FromRocks(row->status(), name_));
  std::reverse(ids.begin(), ids.end());
  return ids;
}

StatusOr<std::vector<CheckpointId>> CheckpointReader::Complete() const { return Ids('m'); }

StatusOr<std::vector<CheckpointId>> CheckpointReader::WithChunks() const { return Ids('c'); }

StatusOr<v1::CheckpointManifest> CheckpointReader::Manifest(const CheckpointId& id) const {
  const std::string what = absl::StrFormat("the manifest of step %d (epoch %d)", id.step, id.epoch);
  RW_RETURN_IF_ERROR(CheckOpen());
  std::string value;
  RW_RETURN_IF_ERROR(
      FromRocks(db_->Get(rocksdb::ReadOptions(), ManifestKey(id), &value), what + " in " + name_));
  RW_ASSIGN_OR_RETURN(auto manifest, Unseal<v1::CheckpointManifest>(value, what));
  if (manifest.format() != kManifestFormat) {
    return Refused(absl::StrFormat("%s has format %d, this Ringwood reads %d", what,
                                   manifest.format(), kManifestFormat));
  }
  if (manifest.epoch() != id.epoch || manifest.step() != id.step) {
    return Corrupt(what + " names another checkpoint");
  }
  return manifest;
}

StatusOr<v1::CheckpointManifest> CheckpointReader::Find(const CheckpointId& wanted) const {
  RW_ASSIGN_OR_RETURN(const CheckpointId id, Resolve(wanted));
  return Manifest(id);
}

StatusOr<CheckpointId> CheckpointReader::Resolve(const CheckpointId& wanted) const {
  RW_ASSIGN_OR_RETURN(const auto ids, Complete());
  for (const CheckpointId& id : ids) {
    if (wanted.epoch != 0 && id.epoch != wanted.epoch) continue;
    if (wanted == CheckpointId{} || id.step == wanted.step) return id;
  }
  if (wanted == CheckpointId{}) return NotFound(name_ + " has no complete checkpoint");
  const std::string epoch = wanted.epoch == 0 ? "" : absl::StrFormat(" of epoch %d", wanted.epoch);
  return NotFound(
      absl::StrFormat("%s has no complete checkpoint of step %d%s", name_, wanted.step, epoch));
}

StatusOr<std::string> CheckpointReader::Chunk(const CheckpointId& id, const v1::StoredItem& item,
                                              const v1::StoredChunk& chunk) const {
  const std::string what =
      absl::StrFormat("item \"%s\" of step %d (epoch %d), bytes %d to %d", item.name(), id.step,
                      id.epoch, chunk.offset(), chunk.offset() + chunk.bytes());
  RW_RETURN_IF_ERROR(CheckOpen());
  rocksdb::ReadOptions once;
  once.fill_cache = false;
  std::string bytes;
  const auto got = db_->Get(once, ChunkKey(id, chunk.rank(), chunk.sequence()), &bytes);
  if (got.IsNotFound()) return Corrupt(what + ": missing in " + name_);
  RW_RETURN_IF_ERROR(FromRocks(got, what));
  if (bytes.size() != chunk.bytes() || Sha256(bytes) != chunk.sha256()) {
    return Corrupt(what + ": damaged (its SHA-256 differs)");
  }
  return bytes;
}

Status CheckpointReader::Verify(const v1::CheckpointManifest& manifest,
                                const ReadProgress& progress) const {
  const CheckpointId id{manifest.epoch(), manifest.step()};
  uint64_t done = 0;
  for (const v1::StoredItem& item : manifest.items()) {
    for (const v1::StoredChunk& chunk : item.chunks()) {
      RW_RETURN_IF_ERROR(Chunk(id, item, chunk).status());
      done += chunk.bytes();
      if (progress) RW_RETURN_IF_ERROR(progress(id, done, manifest.bytes()));
    }
  }
  return OkStatus();
}

}  // namespace ringwood
