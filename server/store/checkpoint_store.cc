#include "server/store/checkpoint_store.h"

#include <rocksdb/write_batch.h>

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/log.h"
#include "base/random.h"
#include "server/store/database.h"
#include "server/store/read_back.h"
#include "server/store/record/manifest_rows.h"
#include "server/store/record/sealed.h"
#include "server/store/store_directory.h"

namespace ringwood {
namespace {

// Of a further store's parts those whose wholes are complete, as the main store knows them.
std::vector<Kept> ThoseOf(const std::map<CheckpointId, Kept>& wholes, std::vector<Kept> parts) {
  std::erase_if(parts, [&](const Kept& part) { return !wholes.contains(part.id); });
  for (Kept& part : parts) {
    const Kept& whole = wholes.at(part.id);
    part.bad |= whole.bad;
    part.unread |= whole.unread;
  }
  return parts;
}

}  // namespace

StatusOr<std::unique_ptr<CheckpointStore>> CheckpointStore::Open(const std::string& directory,
                                                                 const LockPatience& patience,
                                                                 rocksdb::Env* env) {
  rocksdb::Options options = SafeOptions(env);
  options.compression = rocksdb::kNoCompression;
  options.advise_random_on_open = false;  // chunks are read in order: the kernel may read ahead
  std::unique_ptr<CheckpointStore> store(new CheckpointStore(options, directory));
  RW_RETURN_IF_ERROR(store->database_.Open(patience));
  RW_RETURN_IF_ERROR(store->Clean());
  return store;
}

Status CheckpointStore::Clean() {
  RW_RETURN_IF_ERROR(EmptyDirectory(directory() + "/incoming", database_.env()));
  RW_RETURN_IF_ERROR(FromRocks(database_.env()->CreateDirIfMissing(directory() + "/pins"),
                               "cannot create " + directory() + "/pins"));
  RW_ASSIGN_OR_RETURN(const auto complete, reader().Complete());
  RW_ASSIGN_OR_RETURN(const auto unused, Unused());
  for (const CheckpointId& id : unused) {
    const bool newer = complete.empty() || id > complete.front();
    Log(newer ? LogLevel::kWarning : LogLevel::kInfo,
        newer ? "the checkpoint of " + Text(id) + " was never completed: removing its stripes"
              : "no checkpoint has the stripes of " + Text(id) + ": removing them");
  }
  RemoveUnused();
  return OkStatus();
}

// What the next checkpoint of a job may have from earlier ones, or null.
StatusOr<CheckpointStore::Index> CheckpointStore::IndexFor(uint64_t job) {
  RW_ASSIGN_OR_RETURN(auto complete, Complete());
  if (wholes_) complete = ThoseOf(*wholes_, std::move(complete));
  const std::optional<CheckpointId> base = BaseOf(job, complete);
  if (!base) return Index();
  RW_ASSIGN_OR_RETURN(const auto manifest, reader().Manifest(*base));
  return std::make_shared<const ChunkIndex>(manifest);
}

// A checkpoint that could share and does not is as good as any other.
CheckpointStore::Index CheckpointStore::BeingMade(const CheckpointId& id, uint64_t job) {
  const auto [making, is_new] = making_.try_emplace(id);
  if (!is_new) return making->second;
  StatusOr<Index> index = IndexFor(job);
  if (index.ok()) return making->second = *std::move(index);
  Log(LogLevel::kWarning,
      "all of " + Text(id) + " is written, also what did not change: " + Message(index.status()));
  return nullptr;
}

StatusOr<std::unique_ptr<StripeWriter>> CheckpointStore::NewStripe(const CheckpointId& id,
                                                                   uint32_t rank, uint64_t job) {
  RW_RETURN_IF_ERROR(Usable());
  if (std::exchange(look_again_, false)) RemoveUnused();
  StripeWriter::FindHome find_home;
  if (const Index index = BeingMade(id, job); index != nullptr) {
    find_home = [this, index](uint64_t digest,
                              const std::string& bytes) -> std::optional<ChunkPlace> {
      const ChunkPlace* const place = index->Find(digest, bytes.size());
      if (place == nullptr) return std::nullopt;
      const absl::ReaderMutexLock lock(database_.opening());
      return reader().Holds(*place, bytes) ? std::optional(*place) : std::nullopt;
    };
  }
  return StripeWriter::Create(id, rank,
                              absl::StrFormat("%s/incoming/%d-%d-%d-%d.sst", directory(), id.epoch,
                                              id.step, rank, next_file_++),
                              database_.env(), std::move(find_home));
}

HomeSizes CheckpointStore::HomesFor(const CheckpointId& id) const {
  const auto making = making_.find(id);
  return making == making_.end() || making->second == nullptr ? HomeSizes()
                                                              : making->second->homes();
}

Status CheckpointStore::Ingest(const std::vector<StripeWriter*>& stripes) {
  std::vector<std::string> paths;
  for (const StripeWriter* stripe : stripes) {
    if (!stripe->empty()) paths.push_back(stripe->path());
  }
  if (paths.empty()) return OkStatus();
  RW_RETURN_IF_ERROR(Usable());
  rocksdb::IngestExternalFileOptions options;
  options.move_files = true;
  return Recover(
      FromRocks(database_.get()->IngestExternalFile(paths, options), "cannot take in the stripes"));
}

StatusOr<std::string> CheckpointStore::Chunk(const CheckpointId& id, const v1::StoredItem& item,
                                             const v1::StoredChunk& chunk) const {
  const absl::ReaderMutexLock lock(database_.opening());
  return reader().Chunk(id, item, chunk);
}

Status CheckpointStore::Publish(const v1::CheckpointManifest& manifest,
                                std::optional<uint64_t> written_since) {
  const CheckpointId id{manifest.epoch(), manifest.step()};
  RW_RETURN_IF_ERROR(Usable());
  RW_ASSIGN_OR_RETURN(const ManifestRows rows, RowsOf(manifest));
  RW_RETURN_IF_ERROR(IngestPieces(id, rows.pieces));
  RW_RETURN_IF_ERROR(reader().WithItems(rows.head).status());
  const bool unread = written_since == openings();
  if (!unread) RW_RETURN_IF_ERROR(reader().Verify(manifest));
  rocksdb::WriteBatch batch;
  if (unread) batch.Put(UnreadKey(id), "");
  batch.Put(ManifestKey(id), Seal(rows.head));
  batch.Put(kLatestKey, SealBytes(ManifestKey(id)));
  RW_RETURN_IF_ERROR(
      Recover(FromRocks(WriteDurably(database_.get(), &batch), "cannot write the manifest")));
  // It exists from here on: what fails below costs a safeguard and not the checkpoint.
  making_.erase(id);
  if (!unread) verdicts_.Remember(id, OkStatus());
  // Out of the log and into a table of its own: a torn tail of the log cannot take it away.
  if (Status flushed = Recover(
          FromRocks(database_.get()->Flush(rocksdb::FlushOptions()), "cannot flush the manifest"));
      !flushed.ok()) {
    Log(LogLevel::kWarning, Message(flushed));
  }
  if (Status witnessed = WriteWitness(directory(), ManifestKey(id), database_.env());
      !witnessed.ok()) {
    Log(LogLevel::kWarning, "the checkpoint has no witness: " + Message(witnessed));
  }
  if (!unread) Settle(id, OkStatus());
  return OkStatus();
}

StatusOr<std::set<CheckpointId>> CheckpointStore::Marked() const {
  RW_ASSIGN_OR_RETURN(const auto ids, reader().Unread());
  return std::set<CheckpointId>(ids.begin(), ids.end());
}

StatusOr<std::vector<CheckpointId>> CheckpointStore::Unread() const {
  const absl::ReaderMutexLock lock(database_.opening());
  RW_ASSIGN_OR_RETURN(const auto marked, Marked());
  std::vector<CheckpointId> unread;
  for (const CheckpointId& id : marked) {
    if (!verdicts_.Of(id)) unread.push_back(id);
  }
  return unread;
}

Status CheckpointStore::ReadBack(const CheckpointId& id, const ReadProgress& progress) const {
  v1::CheckpointManifest manifest;
  std::vector<std::string> tables;
  uint64_t opening = 0;
  {
    const absl::ReaderMutexLock lock(database_.opening());
    RW_ASSIGN_OR_RETURN(manifest, reader().Manifest(id));
    tables = TablesOf(database_.get(), id);
    opening = openings();
  }
  const Status found =
      CompareStripes(manifest, tables, database_.env(), progress,
                     [&](const v1::StoredItem& item, const v1::StoredChunk& chunk) {
                       return Chunk(id, item, chunk).status();
                     });
  const absl::ReaderMutexLock lock(database_.opening());
  if (opening != openings()) return Unavailable("the store was opened again meanwhile");
  if (found.code() == StatusCode::kDataLoss && !reader().Head(id).ok()) {
    return Aborted("the checkpoint was removed meanwhile");
  }
  if (found.ok() || found.code() == StatusCode::kDataLoss) verdicts_.Remember(id, found);
  return found;
}

void CheckpointStore::Settle(const CheckpointId& id, const Status& found) {
  if (found.code() == StatusCode::kDataLoss) {
    Log(LogLevel::kError, "CHECKPOINT DAMAGED, the one before stays: " + Text(id) +
                              " is not on the disk as it was sent: " + Message(found));
  } else if (!found.ok() && found.code() != StatusCode::kAborted) {
    Log(LogLevel::kWarning,
        "the checkpoint of " + Text(id) + " was not read back, older ones stay: " + Message(found));
  }
  if (const auto pruned = Prune(); !pruned.ok()) {
    Log(LogLevel::kWarning, "old checkpoints stay: " + Message(pruned.status()));
  }
}

// A process that ended before it had.
Status CheckpointStore::ReadBackIfMarked(const CheckpointId& id) const {
  RW_ASSIGN_OR_RETURN(const auto marked, Marked());
  return marked.contains(id) ? ReadBack(id) : OkStatus();
}

Status CheckpointStore::IngestPieces(const CheckpointId& id,
                                     const std::vector<std::string>& pieces) {
  if (pieces.empty()) return OkStatus();
  RW_ASSIGN_OR_RETURN(const auto stripe, NewStripe(id, kManifestRank, 0));
  for (const std::string& piece : pieces) RW_RETURN_IF_ERROR(stripe->Put(piece));
  RW_RETURN_IF_ERROR(stripe->Finish());
  return Ingest({stripe.get()});
}

StatusOr<std::vector<Kept>> CheckpointStore::Complete() const {
  RW_ASSIGN_OR_RETURN(const auto ids, reader().Complete());
  RW_ASSIGN_OR_RETURN(const auto marked, Marked());
  std::vector<Kept> complete;
  for (const CheckpointId& id : ids) {
    // A manifest that cannot be read counts for no job: it goes when it is not the newest of those.
    const auto manifest = reader().Head(id);
    if (manifest.status().code() == StatusCode::kUnavailable) return manifest.status();
    Kept kept{id};
    kept.bad = !manifest.ok() || verdicts_.Bad(id);
    kept.unread = marked.contains(id) && !verdicts_.Good(id);
    if (manifest.ok()) kept.job = manifest->job(), kept.homes = HomesOf(*manifest);
    complete.push_back(std::move(kept));
  }
  return complete;
}

StatusOr<uint64_t> CheckpointStore::Identity() {
  RW_RETURN_IF_ERROR(Usable());
  const auto known = reader().Identity();
  if (known.ok()) return known->store();
  if (known.status().code() != StatusCode::kNotFound) return known.status();
  const uint64_t number = Unpredictable() | 1;
  RW_RETURN_IF_ERROR(WriteIdentity(number, 0));
  return number;
}

Status CheckpointStore::BelongTo(uint64_t main) {
  RW_ASSIGN_OR_RETURN(const uint64_t number, Identity());
  RW_ASSIGN_OR_RETURN(const auto known, reader().Identity());
  if (known.main() == main) return OkStatus();
  RW_ASSIGN_OR_RETURN(const auto complete, reader().Complete());
  if (known.main() != 0 && !complete.empty()) {
    return Refused(absl::StrFormat(
        "%s has parts of the checkpoints of another store, %016x: give this server another --store "
        "directory, or remove this folder if nobody needs them",
        directory(), known.main()));
  }
  return WriteIdentity(number, main);
}

Status CheckpointStore::WriteIdentity(uint64_t number, uint64_t main) {
  v1::StoreIdentity identity;
  identity.set_store(number);
  identity.set_main(main);
  rocksdb::WriteBatch batch;
  batch.Put(kIdentityKey, Seal(identity));
  return Recover(
      FromRocks(WriteDurably(database_.get(), &batch), "cannot number " + database_.name()));
}

Status CheckpointStore::Recover(Status failed) {
  if (failed.ok()) return failed;
  database_.Broke();
  if (Status usable = Usable(); !usable.ok()) {
    Log(LogLevel::kWarning, "the store cannot be written for now: " + Message(usable));
  }
  return failed;
}

Status CheckpointStore::Usable() {
  RW_ASSIGN_OR_RETURN(const bool again, database_.MakeUsable());
  if (!again) return OkStatus();
  for (const CheckpointId& id : std::exchange(leftover_, {})) Drop(id);
  return OkStatus();
}

}  // namespace ringwood
