#include "server/store/checkpoint_reader.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <set>

#include "absl/strings/str_format.h"
#include "server/store/database.h"
#include "server/store/manifest.h"
#include "server/store/sealed.h"
#include "server/store/store_directory.h"

namespace ringwood {
namespace {

// A running server may replace files while the read-only view opens; then the next try sees the new
// ones.
constexpr int kTries = 5;

struct View {
  std::unique_ptr<rocksdb::DB> db;
  std::string name;
  CheckpointReader reader() const { return CheckpointReader(db.get(), name); }
};

StatusOr<View> OpenView(const std::string& store_dir) {
  RW_RETURN_IF_ERROR(CheckStore(store_dir));
  const std::string directory = store_dir + "/checkpoints";
  rocksdb::Options options = SafeOptions();
  options.create_if_missing = false;
  options.info_log_level = rocksdb::InfoLogLevel::HEADER_LEVEL;
  rocksdb::Status opened;
  for (int i = 0; i < kTries; ++i) {
    rocksdb::DB* db = nullptr;
    opened = rocksdb::DB::OpenForReadOnly(options, directory, &db);
    if (opened.ok()) return View{std::unique_ptr<rocksdb::DB>(db), "the store " + store_dir};
  }
  return FromRocks(opened, "the store " + store_dir);
}

}  // namespace

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

StatusOr<std::vector<CheckpointSummary>> ListCheckpoints(const std::string& store_dir) {
  RW_ASSIGN_OR_RETURN(const View view, OpenView(store_dir));
  const CheckpointReader reader = view.reader();
  RW_ASSIGN_OR_RETURN(const auto complete, reader.Complete());
  RW_ASSIGN_OR_RETURN(const auto present, reader.WithChunks());
  std::set<CheckpointId, std::greater<CheckpointId>> ids(complete.begin(), complete.end());
  ids.insert(present.begin(), present.end());
  std::vector<CheckpointSummary> summaries;
  for (const CheckpointId& id : ids) {
    CheckpointSummary summary;
    summary.step = id.step;
    summary.epoch = id.epoch;
    if (std::find(complete.begin(), complete.end(), id) == complete.end()) {
      summary.problem = "incomplete: never finished, or being written";
    } else if (auto manifest = reader.Manifest(id); !manifest.ok()) {
      summary.damaged = true;
      summary.problem = Message(manifest.status());
    } else {
      summary.complete = true;
      summary.job = manifest->job();
      summary.bytes = manifest->bytes();
      summary.world = static_cast<int>(manifest->world());
      summary.unix_seconds = manifest->unix_seconds();
    }
    summaries.push_back(std::move(summary));
  }
  return summaries;
}

StatusOr<v1::CheckpointManifest> ShowCheckpoint(const std::string& store_dir,
                                                const CheckpointId& wanted) {
  RW_ASSIGN_OR_RETURN(const View view, OpenView(store_dir));
  return view.reader().Find(wanted);
}

Status VerifyCheckpoint(const std::string& store_dir, const CheckpointId& wanted) {
  RW_ASSIGN_OR_RETURN(const View view, OpenView(store_dir));
  RW_ASSIGN_OR_RETURN(const auto manifest, view.reader().Find(wanted));
  return view.reader().Verify(manifest);
}

}  // namespace ringwood
