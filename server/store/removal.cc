// What goes from a store, and what stays.
#include <rocksdb/convenience.h>
#include <rocksdb/write_batch.h>

#include <utility>

#include "base/log.h"
#include "server/store/checkpoint_store.h"
#include "server/store/database.h"
#include "server/store/pins.h"
#include "server/store/store_directory.h"

namespace ringwood {

// Of those that are known to be good. One that stays costs one more read, when its store is opened
// again.
void CheckpointStore::RemoveMarks() {
  const auto marked = Marked();
  if (!marked.ok()) return;
  for (const CheckpointId& id : *marked) {
    if (!verdicts_.Good(id)) continue;
    const Status removed =
        Recover(FromRocks(database_.get()->Delete(rocksdb::WriteOptions(), UnreadKey(id)),
                          "cannot mark a checkpoint as read"));
    if (!removed.ok()) return Log(LogLevel::kWarning, Message(removed));
  }
}

StatusOr<std::vector<CheckpointId>> CheckpointStore::Prune() {
  RemoveMarks();
  RW_RETURN_IF_ERROR(reader().CheckOpen());
  // Training does not wait for somebody who pins: the next checkpoint prunes again.
  RW_ASSIGN_OR_RETURN(const auto lock, PinLock::Take(directory(), Duration::zero()));
  RW_ASSIGN_OR_RETURN(const auto pins, ReadPins(directory()));
  RW_ASSIGN_OR_RETURN(auto complete, Complete());
  for (Kept& kept : complete) kept.pinned = pins.contains(kept.id) || held_.contains(kept.id);
  std::vector<CheckpointId> removed = Superfluous(std::move(complete), retention_);
  std::erase_if(removed, [this](const CheckpointId& id) { return !RemoveManifest(id).ok(); });
  RemoveUnused();
  return removed;
}

// The witness first: what it names is there.
void CheckpointStore::Remove(const CheckpointId& id) {
  const auto complete = reader().Complete();
  if (complete.ok() && !complete->empty() && complete->front() == id) {
    const std::string newest = complete->size() > 1 ? ManifestKey((*complete)[1]) : "";
    const Status witnessed = WriteWitness(directory(), newest, database_.env());
    if (!witnessed.ok()) return Log(LogLevel::kWarning, Message(witnessed));
  }
  Drop(id);
}

void CheckpointStore::Drop(const CheckpointId& id) {
  making_.erase(id);
  if (RemoveManifest(id).ok()) RemoveUnused();
}

// The manifest, where there is one, goes first: chunks without it are no checkpoint. (A full disk
// takes no Delete, and the stripes that filled it have no manifest.)
Status CheckpointStore::RemoveManifest(const CheckpointId& id) {
  Status failed = reader().CheckOpen();
  std::string manifest;
  if (failed.ok() &&
      !database_.get()->Get(rocksdb::ReadOptions(), ManifestKey(id), &manifest).IsNotFound()) {
    rocksdb::WriteBatch batch;
    batch.Delete(ManifestKey(id));
    batch.Delete(UnreadKey(id));
    failed = FromRocks(WriteDurably(database_.get(), &batch),
                       "cannot remove the manifest of " + Text(id));
    if (!failed.ok()) database_.Broke();
    if (!failed.ok()) Log(LogLevel::kWarning, Message(failed));
  }
  if (!failed.ok()) {
    leftover_.insert(id);
    return failed;
  }
  // Others may have its chunks; the pieces of its manifest are its own.
  const std::string first = ChunkKey(id, kManifestRank, 0);
  if (database_.get()->Get(rocksdb::ReadOptions(), first, &manifest).ok()) RemoveRange(id, first);
  return failed;
}

StatusOr<std::vector<CheckpointId>> CheckpointStore::Unused() const {
  RW_ASSIGN_OR_RETURN(const auto present, reader().WithChunks());
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
  rocksdb::Status removed = rocksdb::DeleteFilesInRange(
      database_.get(), database_.get()->DefaultColumnFamily(), &begin_slice, &end_slice);
  if (removed.ok()) {
    removed = database_.get()->DeleteRange(Unlogged(), database_.get()->DefaultColumnFamily(),
                                           begin_slice, end_slice);
  }
  if (removed.ok()) return;
  database_.Broke();
  leftover_.insert(id);
  Log(LogLevel::kWarning, "cannot remove the stripes of " + Text(id) + ": " + removed.ToString());
}

}  // namespace ringwood
