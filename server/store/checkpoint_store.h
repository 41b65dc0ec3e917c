// Checkpoints in RocksDB. A checkpoint is real from the moment its manifest is written, last:
//
//   stripes: StripeWriter (what an earlier checkpoint has is compared with it and not written
//   again, see homes.h) → all stripes there: Ingest (durable, but not yet visible) → the pieces of
//   a long manifest, as one more stripe, read back → manifest + latest in one synced batch → flush
//   → ReadBack, past the page cache → Settle: older ones removed, see retention.h and pins.h
//
// Until its stripes were read back a checkpoint has a mark, and does not count as one of the good
// ones that are kept: nothing older goes for it, readers do not get it, and a job that resumes from
// it reads it back first. The mark outlives the process.
//
// Used on one thread, but for what says otherwise. A full or failing disk fails only
// the checkpoint in hand: the database is opened again before the next one.
#pragma once

#include <rocksdb/db.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "server/store/checkpoint_reader.h"
#include "server/store/lock_patience.h"
#include "server/store/parts/part_check.h"
#include "server/store/record/chunk_index.h"
#include "server/store/record/homes.h"
#include "server/store/record/manifest.h"
#include "server/store/record/retention.h"
#include "server/store/store_database.h"
#include "server/store/stripe_writer.h"
#include "server/store/verdicts.h"

namespace ringwood {

class CheckpointStore {
 public:
  // Makes `directory` if needed. Removes incomplete checkpoints. `patience`: as
  // for OpenDatabase. `env`: as for SafeOptions.
  static StatusOr<std::unique_ptr<CheckpointStore>> Open(
      const std::string& directory, const LockPatience& patience = {},
      rocksdb::Env* env = rocksdb::Env::Default());

  // Until the next call of another.
  const CheckpointReader& reader() const { return database_.reader(); }

  // From now on. Without it the newest two of each job stay, and those that are pinned.
  void Keep(const Retention& retention) { retention_ = retention; }
  // These stay, too, until the next call.
  void Hold(std::set<CheckpointId> held) { held_ = std::move(held); }

  // All that have a manifest, newest first, with what is known of them; but for pins. Unavailable
  // where the disk does not tell now.
  StatusOr<std::vector<Kept>> Complete() const;

  // The state that is made from a checkpoint of a job and what was kept beside it.
  using Reach = std::function<CheckpointId(uint64_t job, const CheckpointId&)>;

  // Of a checkpoint of `job` that is being made from here on, until it is published or dropped.
  StatusOr<std::unique_ptr<StripeWriter>> NewStripe(const CheckpointId& id, uint32_t rank,
                                                    uint64_t job);

  // The checkpoints in whose stripes chunks of one that is being made may lie, for Assemble.
  HomeSizes HomesFor(const CheckpointId& id) const;

  // Adds the files of finished stripes to the database, of one checkpoint; durable when it returns.
  Status Ingest(const std::vector<StripeWriter*>& stripes);

  // CheckpointReader's. Any thread.
  StatusOr<std::string> Chunk(const CheckpointId& id, const v1::StoredItem& item,
                              const v1::StoredChunk& chunk) const;

  // How often the database was opened: what was read back before the last time may be elsewhere, as
  // a store that is deleted under way begins anew.
  uint64_t openings() const { return database_.openings(); }

  // Makes the checkpoint real, see above. `manifest` is from Assemble, with its names filled in.
  // All of it is read and verified first, and then it is settled. Unless all its stripes were
  // written and taken in since this opening: then it is unread, and the caller sees to ReadBack.
  Status Publish(const v1::CheckpointManifest& manifest,
                 std::optional<uint64_t> written_since = std::nullopt);

  // Checkpoints that were not read back yet, oldest first. Any thread.
  StatusOr<std::vector<CheckpointId>> Unread() const;
  // Compares what the disk has of an unread checkpoint's stripes with what its workers sent, past
  // the page cache where the file system can, and remembers the result. Corrupt names the first
  // chunk that is missing or another. One thread at a time, beside the others.
  Status ReadBack(const CheckpointId& id, const ReadProgress& progress = {}) const;
  // What ReadBack found: the mark goes, and what is superfluous; or a line says what is wrong.
  void Settle(const CheckpointId& id, const Status& found);

  // The newest checkpoint of `job` (0: of any) whose every byte is correct; damaged ones are
  // skipped with a log line. Reads each once and remembers the result. One thread at a time, beside
  // the others.
  // With `reach` not the newest, but the one that leads furthest. `ask`: begins to have the parts
  // of a checkpoint read that are in further stores, and gives what answers when they were. One
  // that is damaged is damage; where it cannot be said whether they are, that error is the answer.
  using AskParts = std::function<StatusOr<PartsVerdict>(const v1::CheckpointManifest& head)>;
  StatusOr<std::optional<CheckpointBase>> NewestGood(uint64_t job,
                                                     const ReadProgress& progress = {},
                                                     const Reach& reach = {},
                                                     const AskParts& ask = {}) const;
  // The newest good checkpoints of a job, newest first, without reading them again.
  StatusOr<std::vector<CheckpointId>> Newest(uint64_t job, size_t count) const;

  // Marks a checkpoint that was found damaged: nobody resumes from it, and it does not count for
  // retention. Any thread.
  void Distrust(const CheckpointId& id, const Status& why) const { verdicts_.Remember(id, why); }

  // The newest complete checkpoint of each job, newest first, without reading it back.
  StatusOr<std::vector<CheckpointBase>> NewestOfEachJob() const;

  // Removes what need not be kept, and answers what that was. After each new checkpoint it is done.
  StatusOr<std::vector<CheckpointId>> Prune();

  // The number of a store that shares checkpoints, which it has for as long as its database lives.
  StatusOr<uint64_t> Identity();
  // Of a further store. It has parts of the checkpoints of this main store from now on. Refused
  // while it has another's, whose names may be the same.
  Status BelongTo(uint64_t main);
  // The wholes that are complete, as the main store knows them: of other parts no chunk is taken.
  void Wholes(std::map<CheckpointId, Kept> wholes) { wholes_ = std::move(wholes); }
  // NewestGood's check, of the part with this manifest.
  Status CheckPart(const CheckpointId& id, uint64_t digest, const ReadProgress& progress) const;
  // A part that belongs to no whole, and may be the newest.
  void Remove(const CheckpointId& id);

  // Removes a checkpoint, complete or not; chunks that others have from it stay. Best effort: Open
  // does it again.
  void Drop(const CheckpointId& id);

 private:
  CheckpointStore(const rocksdb::Options& options, const std::string& directory)
      : database_(options, directory) {}
  const std::string& directory() const { return database_.directory(); }

  using Index = std::shared_ptr<const ChunkIndex>;

  StatusOr<Index> IndexFor(uint64_t job);
  Index BeingMade(const CheckpointId& id, uint64_t job);
  Status WriteIdentity(uint64_t number, uint64_t main);
  Status RemoveManifest(const CheckpointId& id);
  StatusOr<std::vector<CheckpointId>> Unused() const;
  void RemoveUnused();
  void RemoveRange(const CheckpointId& id, const std::string& first);
  Status IngestPieces(const CheckpointId& id, const std::vector<std::string>& pieces);
  void SortByReach(const Reach& reach, std::vector<CheckpointId>* ids) const;
  Status Check(const v1::CheckpointManifest& head, const ReadProgress& progress) const;
  Status ReadBackIfMarked(const CheckpointId& id) const;
  StatusOr<std::set<CheckpointId>> Marked() const;
  void RemoveMarks();
  Status Clean();
  Status Usable();
  Status Recover(Status failed);

  // NewestGood and CheckPart hold its `reading` while they read on a thread of their own; Chunk and
  // stripes in the making its `opening`.
  StoreDatabase database_;
  Retention retention_;
  std::set<CheckpointId> held_;
  std::optional<std::map<CheckpointId, Kept>> wholes_;
  std::map<CheckpointId, Index> making_;  // with the chunks that each may have, or null
  uint64_t next_file_ = 0;
  std::set<CheckpointId> leftover_;  // what Drop could not remove
  bool look_again_ = false;          // for what nobody has
  mutable Verdicts verdicts_;
};

}  // namespace ringwood
