#include "server/store/checkpoint_store.h"

#include <rocksdb/convenience.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/log.h"
#include "base/random.h"
#include "server/store/database.h"
#include "server/store/pins.h"
#include "server/store/read_back.h"
#include "server/store/record/manifest_rows.h"
#include "server/store/record/sealed.h"
#include "server/store/store_directory.h"
#include "server/store/table_guard.h"

namespace ringwood {
namespace {

// Far more checkpoints than a store holds of the jobs that one server sees.
constexpr size_t kMaxVerdicts = 1024;

std::string NameOf(const std::string& directory) { return "the checkpoint store " + directory; }

std::string Text(const CheckpointId& id) {
  return absl::StrFormat("step %d (epoch %d)", id.step, id.epoch);
}

// The database must know the newest checkpoint that was reported complete. Looked at read-only:
// opening it for writing removes the files that it has forgotten.
Status CheckWitness(const rocksdb::Options& options, const std::string& directory) {
  const std::string newest = ReadWitness(directory);
  CheckpointId id;
  if (!ParseKey(newest, 'm', &id)) return OkStatus();
  rocksdb::DB* opened = nullptr;
  RW_RETURN_IF_ERROR(
      FromRocks(rocksdb::DB::OpenForReadOnly(options, directory, &opened), NameOf(directory)));
  const std::unique_ptr<rocksdb::DB> db(opened);
  RW_ASSIGN_OR_RETURN(const auto complete,
                      CheckpointReader(db.get(), NameOf(directory)).Complete());
  if (!complete.empty() && complete.front() >= id) return OkStatus();
  return Corrupt(NameOf(directory) + " has lost the checkpoint of " + Text(id) +
                 ", which was complete: its files were cut or replaced. Nothing was changed; bring "
                 "the directory back from a copy, or give another --store");
}

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

CheckpointStore::CheckpointStore(const rocksdb::Options& options, const std::string& directory)
    : options_(options), directory_(directory) {}

StatusOr<std::unique_ptr<CheckpointStore>> CheckpointStore::Open(const std::string& directory,
                                                                 Duration patience,
                                                                 rocksdb::Env* env) {
  rocksdb::Options options = SafeOptions(env);
  options.compression = rocksdb::kNoCompression;
  options.advise_random_on_open = false;  // chunks are read in order: the kernel may read ahead
  std::unique_ptr<CheckpointStore> store(new CheckpointStore(options, directory));
  RW_RETURN_IF_ERROR(store->OpenAgain(patience));
  RW_RETURN_IF_ERROR(store->Clean());
  return store;
}

Status CheckpointStore::OpenAgain(Duration patience) {
  const absl::MutexLock lock(&opening_);
  rocksdb::Options options = options_;
  const bool first = reader_ == nullptr;
  ++openings_;
  reader_ = std::make_unique<CheckpointReader>(nullptr, NameOf(directory_));
  db_.reset();
  if (!first && !HasDatabase(directory_)) RW_RETURN_IF_ERROR(BeginAnew(directory_, options_.env));
  RW_RETURN_IF_ERROR(CheckWitness(options, directory_));
  guarded_ = GuardTables(options_.env);
  options.env = guarded_.get();
  RW_ASSIGN_OR_RETURN(db_, OpenDatabase(options, directory_, NameOf(directory_), patience));
  reader_ = std::make_unique<CheckpointReader>(db_.get(), NameOf(directory_));
  return OkStatus();
}

Status CheckpointStore::Clean() {
  RW_RETURN_IF_ERROR(EmptyDirectory(directory_ + "/incoming", options_.env));
  RW_RETURN_IF_ERROR(FromRocks(options_.env->CreateDirIfMissing(directory_ + "/pins"),
                               "cannot create " + directory_ + "/pins"));
  RW_ASSIGN_OR_RETURN(const auto complete, reader_->Complete());
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
  RW_ASSIGN_OR_RETURN(const auto manifest, reader_->Manifest(*base));
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
      const absl::ReaderMutexLock lock(&opening_);
      return reader_->Holds(*place, bytes) ? std::optional(*place) : std::nullopt;
    };
  }
  return StripeWriter::Create(id, rank,
                              absl::StrFormat("%s/incoming/%d-%d-%d-%d.sst", directory_, id.epoch,
                                              id.step, rank, next_file_++),
                              options_.env, std::move(find_home));
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
  return Recover(FromRocks(db_->IngestExternalFile(paths, options), "cannot take in the stripes"));
}

StatusOr<std::string> CheckpointStore::Chunk(const CheckpointId& id, const v1::StoredItem& item,
                                             const v1::StoredChunk& chunk) const {
  const absl::ReaderMutexLock lock(&opening_);
  return reader_->Chunk(id, item, chunk);
}

Status CheckpointStore::Publish(const v1::CheckpointManifest& manifest,
                                std::optional<uint64_t> written_since) {
  const CheckpointId id{manifest.epoch(), manifest.step()};
  RW_RETURN_IF_ERROR(Usable());
  RW_ASSIGN_OR_RETURN(const ManifestRows rows, RowsOf(manifest));
  RW_RETURN_IF_ERROR(IngestPieces(id, rows.pieces));
  RW_RETURN_IF_ERROR(reader_->WithItems(rows.head).status());
  const bool unread = written_since == openings_;
  if (!unread) RW_RETURN_IF_ERROR(reader_->Verify(manifest));
  rocksdb::WriteBatch batch;
  if (unread) batch.Put(UnreadKey(id), "");
  batch.Put(ManifestKey(id), Seal(rows.head));
  batch.Put(kLatestKey, SealBytes(ManifestKey(id)));
  RW_RETURN_IF_ERROR(
      Recover(FromRocks(WriteDurably(db_.get(), &batch), "cannot write the manifest")));
  // It exists from here on: what fails below costs a safeguard and not the checkpoint.
  making_.erase(id);
  if (!unread) Remember(id, OkStatus());
  // Out of the log and into a table of its own: a torn tail of the log cannot take it away.
  if (Status flushed =
          Recover(FromRocks(db_->Flush(rocksdb::FlushOptions()), "cannot flush the manifest"));
      !flushed.ok()) {
    Log(LogLevel::kWarning, Message(flushed));
  }
  if (Status witnessed = WriteWitness(directory_, ManifestKey(id), options_.env); !witnessed.ok()) {
    Log(LogLevel::kWarning, "the checkpoint has no witness: " + Message(witnessed));
  }
  if (!unread) Settle(id, OkStatus());
  return OkStatus();
}

StatusOr<std::set<CheckpointId>> CheckpointStore::Marked() const {
  RW_ASSIGN_OR_RETURN(const auto ids, reader_->Unread());
  return std::set<CheckpointId>(ids.begin(), ids.end());
}

bool CheckpointStore::IsKnownGood(const CheckpointId& id) const {
  const std::optional<Status> verdict = Verdict(id);
  return verdict && verdict->ok();
}

StatusOr<std::vector<CheckpointId>> CheckpointStore::Unread() const {
  const absl::ReaderMutexLock lock(&opening_);
  RW_ASSIGN_OR_RETURN(const auto marked, Marked());
  std::vector<CheckpointId> unread;
  for (const CheckpointId& id : marked) {
    if (!Verdict(id)) unread.push_back(id);
  }
  return unread;
}

Status CheckpointStore::ReadBack(const CheckpointId& id, const ReadProgress& progress) const {
  v1::CheckpointManifest manifest;
  std::vector<std::string> tables;
  uint64_t opening = 0;
  {
    const absl::ReaderMutexLock lock(&opening_);
    RW_ASSIGN_OR_RETURN(manifest, reader_->Manifest(id));
    tables = TablesOf(db_.get(), id);
    opening = openings_;
  }
  const Status found =
      CompareStripes(manifest, tables, options_.env, progress,
                     [&](const v1::StoredItem& item, const v1::StoredChunk& chunk) {
                       return Chunk(id, item, chunk).status();
                     });
  const absl::ReaderMutexLock lock(&opening_);
  if (opening != openings_) return Unavailable("the store was opened again meanwhile");
  if (found.code() == StatusCode::kDataLoss && !reader_->Head(id).ok()) {
    return Aborted("the checkpoint was removed meanwhile");
  }
  if (found.ok() || found.code() == StatusCode::kDataLoss) Remember(id, found);
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

// Of those that are known to be good. One that stays costs one more read, when its store is opened
// again.
void CheckpointStore::RemoveMarks() {
  const auto marked = Marked();
  if (!marked.ok()) return;
  for (const CheckpointId& id : *marked) {
    if (!IsKnownGood(id)) continue;
    const Status removed = Recover(FromRocks(db_->Delete(rocksdb::WriteOptions(), UnreadKey(id)),
                                             "cannot mark a checkpoint as read"));
    if (!removed.ok()) return Log(LogLevel::kWarning, Message(removed));
  }
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
  RW_ASSIGN_OR_RETURN(const auto ids, reader_->Complete());
  RW_ASSIGN_OR_RETURN(const auto marked, Marked());
  std::vector<Kept> complete;
  for (const CheckpointId& id : ids) {
    // A manifest that cannot be read counts for no job: it goes when it is not the newest of those.
    const auto manifest = reader_->Head(id);
    if (manifest.status().code() == StatusCode::kUnavailable) return manifest.status();
    Kept kept{id};
    kept.bad = !manifest.ok() || !Verdict(id).value_or(OkStatus()).ok();
    kept.unread = marked.contains(id) && !IsKnownGood(id);
    if (manifest.ok()) kept.job = manifest->job(), kept.homes = HomesOf(*manifest);
    complete.push_back(std::move(kept));
  }
  return complete;
}

StatusOr<std::vector<CheckpointId>> CheckpointStore::Prune() {
  RemoveMarks();
  RW_RETURN_IF_ERROR(reader_->CheckOpen());
  // Training does not wait for somebody who pins: the next checkpoint prunes again.
  RW_ASSIGN_OR_RETURN(const auto lock, PinLock::Take(directory_, Duration::zero()));
  RW_ASSIGN_OR_RETURN(const auto pins, ReadPins(directory_));
  RW_ASSIGN_OR_RETURN(auto complete, Complete());
  for (Kept& kept : complete) kept.pinned = pins.contains(kept.id) || held_.contains(kept.id);
  std::vector<CheckpointId> superfluous = Superfluous(std::move(complete), retention_);
  for (const CheckpointId& id : superfluous) (void)RemoveManifest(id);
  RemoveUnused();
  return superfluous;
}

// The witness first: what it names is there.
void CheckpointStore::Remove(const CheckpointId& id) {
  const auto complete = reader_->Complete();
  if (complete.ok() && !complete->empty() && complete->front() == id) {
    const std::string newest = complete->size() > 1 ? ManifestKey((*complete)[1]) : "";
    const Status witnessed = WriteWitness(directory_, newest, options_.env);
    if (!witnessed.ok()) return Log(LogLevel::kWarning, Message(witnessed));
  }
  Drop(id);
}

StatusOr<uint64_t> CheckpointStore::Identity() {
  RW_RETURN_IF_ERROR(Usable());
  const auto known = reader_->Identity();
  if (known.ok()) return known->store();
  if (known.status().code() != StatusCode::kNotFound) return known.status();
  const uint64_t number = Unpredictable() | 1;
  RW_RETURN_IF_ERROR(WriteIdentity(number, 0));
  return number;
}

Status CheckpointStore::BelongTo(uint64_t main) {
  RW_ASSIGN_OR_RETURN(const uint64_t number, Identity());
  RW_ASSIGN_OR_RETURN(const auto known, reader_->Identity());
  if (known.main() == main) return OkStatus();
  RW_ASSIGN_OR_RETURN(const auto complete, reader_->Complete());
  if (known.main() != 0 && !complete.empty()) {
    return Refused(absl::StrFormat(
        "%s has parts of the checkpoints of another store, %016x: give this server another --store "
        "directory, or remove this folder if nobody needs them",
        directory_, known.main()));
  }
  return WriteIdentity(number, main);
}

Status CheckpointStore::WriteIdentity(uint64_t number, uint64_t main) {
  v1::StoreIdentity identity;
  identity.set_store(number);
  identity.set_main(main);
  rocksdb::WriteBatch batch;
  batch.Put(kIdentityKey, Seal(identity));
  return Recover(FromRocks(WriteDurably(db_.get(), &batch), "cannot number " + NameOf(directory_)));
}

void CheckpointStore::Drop(const CheckpointId& id) {
  making_.erase(id);
  if (RemoveManifest(id).ok()) RemoveUnused();
}

// The manifest, where there is one, goes first: chunks without it are no checkpoint. (A full disk
// takes no Delete, and the stripes that filled it have no manifest.)
Status CheckpointStore::RemoveManifest(const CheckpointId& id) {
  Status failed = reader_->CheckOpen();
  std::string manifest;
  if (failed.ok() && !db_->Get(rocksdb::ReadOptions(), ManifestKey(id), &manifest).IsNotFound()) {
    rocksdb::WriteBatch batch;
    batch.Delete(ManifestKey(id));
    batch.Delete(UnreadKey(id));
    failed =
        FromRocks(WriteDurably(db_.get(), &batch), "cannot remove the manifest of " + Text(id));
    broken_ |= !failed.ok();
    if (!failed.ok()) Log(LogLevel::kWarning, Message(failed));
  }
  if (!failed.ok()) {
    leftover_.insert(id);
    return failed;
  }
  // Others may have its chunks; the pieces of its manifest are its own.
  const std::string first = ChunkKey(id, kManifestRank, 0);
  if (db_->Get(rocksdb::ReadOptions(), first, &manifest).ok()) RemoveRange(id, first);
  return failed;
}

StatusOr<std::vector<CheckpointId>> CheckpointStore::Unused() const {
  RW_ASSIGN_OR_RETURN(const auto present, reader_->WithChunks());
  RW_ASSIGN_OR_RETURN(auto used, Complete());
  for (const auto& [id, index] : making_) {
    Kept making{id};
    for (const auto& [home, bytes] : HomesFor(id)) making.homes.push_back(home);
    used.push_back(std::move(making));
  }
  return Unneeded(present, used);
}

void CheckpointStore::RemoveUnused() {
  const auto unused = Unused();
  if (!unused.ok()) {
    look_again_ = true;
    return Log(LogLevel::kWarning, "stripes that nobody has stay: " + Message(unused.status()));
  }
  for (const CheckpointId& id : *unused) RemoveRange(id, FirstChunkKey(id));
}

// A checkpoint's chunks from that one on. A stripe is one file with a key range of its own, so
// whole files go; the tombstone takes what may lie outside of them. It need not last: Open finds
// what belongs to nothing.
void CheckpointStore::RemoveRange(const CheckpointId& id, const std::string& first) {
  const std::string end = EndChunkKey(id);
  const rocksdb::Slice begin_slice(first), end_slice(end);
  rocksdb::Status removed =
      rocksdb::DeleteFilesInRange(db_.get(), db_->DefaultColumnFamily(), &begin_slice, &end_slice);
  if (removed.ok()) {
    removed = db_->DeleteRange(Unlogged(), db_->DefaultColumnFamily(), begin_slice, end_slice);
  }
  if (removed.ok()) return;
  broken_ = true;
  leftover_.insert(id);
  Log(LogLevel::kWarning, "cannot remove the stripes of " + Text(id) + ": " + removed.ToString());
}

std::optional<Status> CheckpointStore::Verdict(const CheckpointId& id) const {
  absl::MutexLock lock(&mutex_);
  auto found = verdicts_.find(id);
  return found == verdicts_.end() ? std::nullopt : std::optional(found->second);
}

void CheckpointStore::Remember(const CheckpointId& id, const Status& verdict) const {
  absl::MutexLock lock(&mutex_);
  verdicts_[id] = verdict;
  if (verdicts_.size() > kMaxVerdicts) verdicts_.erase(verdicts_.begin());
}

void CheckpointStore::Distrust(const CheckpointId& id, const Status& why) const {
  Remember(id, why);
}

Status CheckpointStore::Recover(Status failed) {
  if (failed.ok()) return failed;
  broken_ = true;
  if (Status usable = Usable(); !usable.ok()) {
    Log(LogLevel::kWarning, "the store cannot be written for now: " + Message(usable));
  }
  return failed;
}

// After a failed write RocksDB takes no other. Its Resume does not come back from an I/O error, and
// after it RocksDB 7.8 gives the next table that it takes in the number 0; so the database is
// opened again, from what is on the disk. What was promised is there.
Status CheckpointStore::Usable() {
  uint64_t failed_beside = 0;  // flushes of RocksDB's own, which no call of ours has seen fail
  if (db_) db_->GetIntProperty(rocksdb::DB::Properties::kBackgroundErrors, &failed_beside);
  broken_ |= failed_beside > 0 || !HasDatabase(directory_);
  if (!broken_) return OkStatus();
  if (!reading_.TryLock()) return Unavailable("a failed write waits for a check to end");
  const Status opened = OpenAgain(Duration::zero());
  reading_.Unlock();
  RW_RETURN_IF_ERROR(opened);
  options_.env->CreateDirIfMissing(directory_ + "/incoming");
  broken_ = false;
  for (const CheckpointId& id : std::exchange(leftover_, {})) Drop(id);
  return OkStatus();
}

}  // namespace ringwood
