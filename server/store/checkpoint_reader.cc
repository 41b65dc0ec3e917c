#include "server/store/checkpoint_reader.h"

#include <algorithm>
#include <memory>
#include <span>

#include "absl/strings/str_format.h"
#include "base/digest.h"
#include "server/store/database.h"
#include "server/store/record/manifest_rows.h"
#include "server/store/record/sealed.h"

namespace ringwood {
namespace {

std::string ManifestName(const CheckpointId& id) { return "the manifest of " + Text(id); }

std::string KeyOf(const ChunkPlace& place) {
  return ChunkKey(place.home, place.rank, place.sequence);
}

bool IsWhatWasSaved(const v1::StoredChunk& chunk, const std::string& bytes) {
  const bool has_digest = chunk.digest() != 0 || chunk.sha256().empty();
  return has_digest ? Digest(std::as_bytes(std::span(bytes))) == chunk.digest()
                    : Sha256(bytes) == chunk.sha256();
}

}  // namespace

Status CheckpointReader::CheckOpen() const {
  if (db_ != nullptr) return OkStatus();
  return Unavailable(name_ + " failed and could not be opened again: see the server's log");
}

StatusOr<std::vector<CheckpointId>> CheckpointReader::Ids(char kind) const {
  RW_RETURN_IF_ERROR(CheckOpen());
  std::vector<CheckpointId> ids;
  rocksdb::ReadOptions keys;
  // A block of chunks is hardly anything but their bytes. Where these are damaged the keys before
  // them are right, and who reads the chunk finds out: so the block must not come into the cache,
  // where it would count as checked.
  keys.verify_checksums = keys.fill_cache = kind != 'c';
  std::unique_ptr<rocksdb::Iterator> row(db_->NewIterator(keys));
  CheckpointId id;
  row->Seek(std::string(1, kind));
  while (row->Valid() && ParseKey(row->key().ToString(), kind, &id)) {
    ids.push_back(id);
    row->Seek(kind == 'c' ? EndChunkKey(id) : row->key().ToString() + '\0');
  }
  RW_RETURN_IF_ERROR(FromRocks(row->status(), name_));
  std::reverse(ids.begin(), ids.end());
  return ids;
}

StatusOr<std::vector<CheckpointId>> CheckpointReader::Complete() const { return Ids('m'); }

StatusOr<std::vector<CheckpointId>> CheckpointReader::WithChunks() const { return Ids('c'); }

StatusOr<std::vector<CheckpointId>> CheckpointReader::Unread() const { return Ids('u'); }

StatusOr<v1::CheckpointManifest> CheckpointReader::Head(const CheckpointId& id) const {
  const std::string what = ManifestName(id);
  RW_RETURN_IF_ERROR(CheckOpen());
  std::string value;
  RW_RETURN_IF_ERROR(
      FromRocks(db_->Get(rocksdb::ReadOptions(), ManifestKey(id), &value), what + " in " + name_));
  RW_ASSIGN_OR_RETURN(auto head, Unseal<v1::CheckpointManifest>(value, what));
  RW_RETURN_IF_ERROR(CheckHead(head, what));
  if (head.epoch() != id.epoch || head.step() != id.step) {
    return Corrupt(what + " names another checkpoint");
  }
  return head;
}

StatusOr<uint64_t> CheckpointReader::HeadDigest(const CheckpointId& id) const {
  RW_RETURN_IF_ERROR(CheckOpen());
  std::string value;
  RW_RETURN_IF_ERROR(FromRocks(db_->Get(rocksdb::ReadOptions(), ManifestKey(id), &value),
                               ManifestName(id) + " in " + name_));
  return Digest(std::as_bytes(std::span(value)));
}

StatusOr<v1::CheckpointManifest> CheckpointReader::Manifest(const CheckpointId& id) const {
  RW_ASSIGN_OR_RETURN(auto head, Head(id));
  return WithItems(std::move(head));
}

StatusOr<v1::CheckpointManifest> CheckpointReader::WithItems(v1::CheckpointManifest head) const {
  const CheckpointId id{head.epoch(), head.step()};
  const std::string what = ManifestName(id);
  std::string body;
  for (int i = 0; i < head.cut_sha256_size(); ++i) {
    RW_ASSIGN_OR_RETURN(
        const std::string piece,
        Row(ChunkKey(id, kManifestRank, static_cast<uint32_t>(i)), what + ", a piece of it"));
    RW_RETURN_IF_ERROR(AddPiece(head, piece, what, &body));
  }
  return WholeManifest(std::move(head), body, what);
}

StatusOr<v1::CheckpointManifest> CheckpointReader::Find(const WantedCheckpoint& wanted) const {
  RW_ASSIGN_OR_RETURN(const CheckpointId id, Resolve(wanted));
  return Manifest(id);
}

StatusOr<CheckpointId> CheckpointReader::Resolve(const WantedCheckpoint& wanted) const {
  RW_ASSIGN_OR_RETURN(const auto ids, Complete());
  const auto found =
      std::find_if(ids.begin(), ids.end(), [&](const CheckpointId& id) { return wanted.Is(id); });
  if (found != ids.end()) return *found;
  const std::string step = wanted.step ? absl::StrFormat(" of step %d", *wanted.step) : "";
  const std::string epoch = wanted.epoch == 0 ? "" : absl::StrFormat(" of epoch %d", wanted.epoch);
  return NotFound(name_ + " has no complete checkpoint" + step + epoch);
}

// One that has to be there.
StatusOr<std::string> CheckpointReader::Row(const std::string& key, const std::string& what) const {
  RW_RETURN_IF_ERROR(CheckOpen());
  rocksdb::ReadOptions once;
  once.fill_cache = false;
  std::string bytes;
  const auto got = db_->Get(once, key, &bytes);
  if (got.IsNotFound()) return Corrupt(what + ": missing in " + name_);
  RW_RETURN_IF_ERROR(FromRocks(got, what));
  return bytes;
}

StatusOr<std::string> CheckpointReader::Chunk(const CheckpointId& id, const v1::StoredItem& item,
                                              const v1::StoredChunk& chunk) const {
  const std::string what =
      absl::StrFormat("item \"%s\" of step %d (epoch %d), bytes %d to %d", item.name(), id.step,
                      id.epoch, chunk.offset(), chunk.offset() + chunk.bytes());
  const ChunkPlace place = PlaceOf(id, chunk);
  RW_ASSIGN_OR_RETURN(std::string bytes, Row(KeyOf(place), what));
  if (bytes.size() != chunk.bytes() || !IsWhatWasSaved(chunk, bytes)) {
    return Corrupt(what + ": damaged (its digest differs)");
  }
  return bytes;
}

StatusOr<v1::StoreIdentity> CheckpointReader::Identity() const {
  RW_RETURN_IF_ERROR(CheckOpen());
  const std::string what = "the number of " + name_;
  std::string value;
  RW_RETURN_IF_ERROR(FromRocks(db_->Get(rocksdb::ReadOptions(), kIdentityKey, &value), what));
  return Unseal<v1::StoreIdentity>(value, what);
}

bool CheckpointReader::Holds(const ChunkPlace& place, const std::string& bytes) const {
  const StatusOr<std::string> row = Row(KeyOf(place), "a chunk that did not change");
  return row.ok() && *row == bytes;
}

Status CheckpointReader::Verify(const v1::CheckpointManifest& manifest,
                                const ReadProgress& progress) const {
  const CheckpointId id{manifest.epoch(), manifest.step()};
  uint64_t done = 0;
  for (const v1::StoredItem& item : manifest.items()) {
    for (const v1::StoredChunk& chunk : item.chunks()) {
      if (chunk.part() != 0) continue;  // in a further store
      RW_RETURN_IF_ERROR(Chunk(id, item, chunk).status());
      done += chunk.bytes();
      if (progress) RW_RETURN_IF_ERROR(progress(id, done, manifest.bytes()));
    }
  }
  return OkStatus();
}

}  // namespace ringwood
