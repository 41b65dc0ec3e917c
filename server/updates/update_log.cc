#include "server/updates/update_log.h"

#include <rocksdb/convenience.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <system_error>

#include "absl/strings/str_format.h"
#include "base/digest.h"
#include "base/log.h"
#include "base/units.h"
#include "server/store/database.h"
#include "server/store/record/manifest.h"
#include "server/store/record/sealed.h"

namespace ringwood {
namespace {

// Of pieces in memory before they go to a table file; two such buffers exist.
constexpr size_t kBufferBytes = 16 << 20;
// Room for two checkpoints, as one may still be unread while the next one is written; and for what
// RocksDB has in memory.
constexpr uint64_t kCheckpoints = 2;
constexpr uint64_t kBuffers = 2;
constexpr uint64_t kEnd = std::numeric_limits<uint64_t>::max();
// Of one round: far above any model of today, and below what a sequence of pieces can count.
constexpr uint64_t kMaxRoundBytes = 1ull << 40;

void Append(std::string* key, uint64_t number) {
  for (int shift = 56; shift >= 0; shift -= 8) key->push_back(static_cast<char>(number >> shift));
}

std::string Key(uint64_t job, uint64_t sequence) {
  std::string key;
  Append(&key, job);
  Append(&key, sequence);
  return key;
}

std::string PieceKey(uint64_t job, uint64_t sequence, int piece) {
  std::string key = Key(job, sequence);
  Append(&key, static_cast<uint64_t>(piece));
  return key;
}

uint64_t SequenceOf(const rocksdb::Slice& key) {
  uint64_t sequence = 0;
  for (size_t i = key.size() - 8; i < key.size(); ++i) {
    sequence = sequence << 8 | static_cast<unsigned char>(key[i]);
  }
  return sequence;
}

v1::LogEntry EntryOf(const Beginning& beginning) {
  v1::LogEntry entry;
  v1::HistoryBegins* begins = entry.mutable_begins();
  begins->set_origin(beginning.origin);
  begins->set_checkpoint_epoch(beginning.checkpoint.epoch);
  begins->set_checkpoint_step(beginning.checkpoint.step);
  begins->set_step(beginning.step);
  begins->set_gap(beginning.gap);
  return entry;
}

Beginning BeginningOf(const v1::HistoryBegins& begins) {
  return {begins.origin(),
          {begins.checkpoint_epoch(), begins.checkpoint_step()},
          begins.step(),
          begins.gap()};
}

rocksdb::ColumnFamilyDescriptor Pieces(rocksdb::Env* env) {
  rocksdb::Options options = SafeOptions(env);
  options.compression = rocksdb::kNoCompression;
  options.write_buffer_size = kBufferBytes;
  // Rows come in the order of their keys and go as whole files, which DeleteFilesInRange leaves
  // where they are in level 0: each goes to the next level at once, which copies nothing, as it
  // overlaps with no other.
  options.level0_file_num_compaction_trigger = 1;
  options.level0_slowdown_writes_trigger = options.level0_stop_writes_trigger = 1 << 30;
  // A vote waits for a write, which waits for no compaction: a log of an earlier version may begin
  // with one of hundreds of GB.
  options.soft_pending_compaction_bytes_limit = options.hard_pending_compaction_bytes_limit = 0;
  return {"pieces", options};
}

// What has an entry was written. Where a machine loses power, entries of rounds that were forgotten
// may come back, whose files are gone for good.
Status Found(const rocksdb::Status& got, const std::string& what) {
  return got.IsNotFound() ? Corrupt(what + " is damaged: a part of it is missing")
                          : FromRocks(got, what);
}

}  // namespace

UpdateLog::UpdateLog(const std::string& directory, const UpdateLogOptions& options)
    : directory_(directory), name_("the update log " + directory), options_(options) {}

UpdateLog::~UpdateLog() {
  if (db_ != nullptr) db_->DestroyColumnFamilyHandle(pieces_);
}

StatusOr<std::unique_ptr<UpdateLog>> UpdateLog::Open(const std::string& directory,
                                                     const UpdateLogOptions& options,
                                                     const LockPatience& patience) {
  std::unique_ptr<UpdateLog> log(new UpdateLog(directory, options));
  RW_RETURN_IF_ERROR(log->OpenAgain(patience));
  return log;
}

Status UpdateLog::OpenAgain(const LockPatience& patience) {
  absl::MutexLock lock(&reading_);
  if (db_ != nullptr) db_->DestroyColumnFamilyHandle(pieces_);
  db_.reset();
  rocksdb::Options entries = SafeOptions(options_.env);
  entries.max_total_wal_size = 4 * kBufferBytes;  // entries are few, and would keep every log file
  RW_ASSIGN_OR_RETURN(Database database,
                      OpenDatabase(entries, directory_, Pieces(options_.env), name_, patience));
  db_ = std::move(database.db);
  pieces_ = database.second;
  return OkStatus();
}

Status UpdateLog::CheckOpen() const {
  if (db_ != nullptr) return OkStatus();
  return Unavailable(name_ + " failed and could not be opened again: see the server's log");
}

// A damaged entry ends what can be used: a round after it would follow a state that nobody has.
StatusOr<Chain> UpdateLog::Read(uint64_t job) const {
  absl::ReaderMutexLock lock(&reading_);
  RW_RETURN_IF_ERROR(CheckOpen());
  Chain chain;
  const std::string end = Key(job, kEnd);
  const rocksdb::Slice bound(end);
  rocksdb::ReadOptions options;
  options.iterate_upper_bound = &bound;
  const std::unique_ptr<rocksdb::Iterator> row(db_->NewIterator(options));
  for (row->Seek(Key(job, 0)); row->Valid(); row->Next()) {
    const uint64_t sequence = SequenceOf(row->key());
    const auto entry =
        Unseal<v1::LogEntry>(row->value().ToString(), absl::StrFormat("entry %d", sequence));
    if (!entry.ok()) {
      Log(LogLevel::kError, absl::StrFormat("%s of job %016x: %s: what follows is not used", name_,
                                            job, Message(entry.status())));
      return chain;
    }
    if (entry->has_begins()) {
      chain.Begin(BeginningOf(entry->begins()), sequence);
    } else {
      const v1::LoggedRound& round = entry->round();
      (void)chain.Add({round.epoch(), round.step(), sequence, round.bytes()});
    }
  }
  RW_RETURN_IF_ERROR(FromRocks(row->status(), name_));
  return chain;
}

// What is on the disk decides again after a failure: what was answered is there, and no more
// counts.
Status UpdateLog::Mend() {
  if (!broken_) return OkStatus();
  incoming_.reset();  // its pieces would go on into a database that cannot be opened again
  RW_RETURN_IF_ERROR(OpenAgain(Duration::zero()));
  RW_ASSIGN_OR_RETURN(chain_, Read(job_));
  broken_ = false;
  return OkStatus();
}

Status UpdateLog::Write(rocksdb::ColumnFamilyHandle* family, const std::string& key,
                        const std::string& value, bool sync) {
  rocksdb::WriteBatch batch;
  batch.Put(family, key, value);
  rocksdb::WriteOptions options;
  options.sync = sync;
  const rocksdb::Status written = db_->Write(options, &batch);
  if (!written.ok()) broken_ = true;
  return FromRocks(written, "cannot write to " + name_);
}

Status UpdateLog::WriteEntry(uint64_t sequence, const v1::LogEntry& entry) {
  return Write(db_->DefaultColumnFamily(), Key(job_, sequence), Seal(entry), options_.fsync);
}

Status UpdateLog::SetEpoch(const v1::EpochRecord& record) {
  incoming_.reset();
  due_ = record;
  return Continue();
}

Status UpdateLog::Continue() {
  RW_RETURN_IF_ERROR(Mend());
  if (!due_) return OkStatus();
  RW_RETURN_IF_ERROR(Adopt(*due_));
  due_.reset();
  return OkStatus();
}

Status UpdateLog::Adopt(const v1::EpochRecord& record) {
  if (record.job() != job_ || !chain_.last()) {
    RW_ASSIGN_OR_RETURN(Chain chain, Read(record.job()));
    const std::string last = Key(record.job(), kEnd);
    const std::unique_ptr<rocksdb::Iterator> row(db_->NewIterator(rocksdb::ReadOptions()));
    row->SeekForPrev(last);
    RW_RETURN_IF_ERROR(FromRocks(row->status(), name_));
    const bool any = row->Valid() && row->key().starts_with(last.substr(0, 8));
    next_ = any ? SequenceOf(row->key()) + 1 : 0;
    job_ = record.job();
    chain_ = std::move(chain);
    newest_ = {};
  }
  // Where nothing was logged of a job, and nothing is to be, nothing is written either.
  if (record.origin() == chain_.origin() || (!options_.on && !chain_.last())) return OkStatus();
  Beginning beginning{record.origin()};
  beginning.step = record.base_step();
  if (record.base_epoch() != 0) {
    beginning.checkpoint = {record.base_epoch(), record.base_step() - record.logged_steps()};
  }
  return Begin(beginning);
}

Status UpdateLog::Begin(const Beginning& beginning) {
  RW_RETURN_IF_ERROR(WriteEntry(next_, EntryOf(beginning)));
  chain_.Begin(beginning, next_++);
  return OkStatus();
}

// Unavailable is a server that is away, for which a worker waits: this disk's errors are not that.
StatusOr<bool> UpdateLog::Take(const v1::LogPiece& piece) {
  StatusOr<bool> taken = TakeOnce(piece);
  if (taken.status().code() != StatusCode::kUnavailable) return taken;
  Log(LogLevel::kError, "update_log_failed",
      absl::StrFormat(
          "THE UPDATE LOG ENDS before step %d: %s. Training goes on, and steps after the "
          "next checkpoint are logged again",
          piece.step(), Message(taken.status())));
  return Exhausted(Message(taken.status()));
}

StatusOr<bool> UpdateLog::TakeOnce(const v1::LogPiece& piece) {
  if (!options_.on) return Refused("this server keeps no update log: start it with --update-log");
  const auto data = std::as_bytes(std::span(piece.data()));
  if (piece.data().size() > kMaxChunkBytes || Digest(data) != piece.checksum()) {
    return Corrupt(
        absl::StrFormat("a piece of step %d for the update log arrived damaged", piece.step()));
  }
  if (piece.offset() == 0) {
    RW_RETURN_IF_ERROR(Continue());  // the cause of an earlier failure may be gone
    incoming_.reset();
    if (piece.restart()) {
      const uint64_t step = piece.step() - 1;
      newest_ = {piece.epoch(), step};
      RW_RETURN_IF_ERROR(Begin({chain_.origin(), newest_, step, true}));
    }
    const auto last = chain_.last();
    if (!last || piece.step() > *last + 1) {
      return Refused(absl::StrFormat("step %d does not follow step %d, the last one in %s",
                                     piece.step(), last.value_or(0), name_));
    }
    RW_RETURN_IF_ERROR(MakeRoom());
    incoming_.emplace();
    incoming_->sequence = next_++;
    incoming_->head.set_epoch(piece.epoch());
    incoming_->head.set_step(piece.step());
  }
  if (!incoming_ || incoming_->head.step() != piece.step() ||
      incoming_->head.bytes() != piece.offset() || piece.offset() + data.size() > kMaxRoundBytes) {
    return Invalid(
        absl::StrFormat("a piece of step %d for the update log is out of order", piece.step()));
  }
  v1::LoggedRound& head = incoming_->head;
  RW_RETURN_IF_ERROR(Write(pieces_, PieceKey(job_, incoming_->sequence, head.digests_size()),
                           piece.data(), false));
  head.add_digests(piece.checksum());
  head.set_bytes(head.bytes() + data.size());
  if (!piece.last()) return false;
  const Incoming whole = *std::exchange(incoming_, std::nullopt);
  v1::LogEntry entry;
  *entry.mutable_round() = whole.head;
  RW_RETURN_IF_ERROR(WriteEntry(whole.sequence, entry));
  if (!chain_.Add({whole.head.epoch(), whole.head.step(), whole.sequence, whole.head.bytes()})) {
    return Internal(absl::StrFormat("step %d does not follow in %s", whole.head.step(), name_));
  }
  return true;
}

// Before there is a checkpoint that says what one takes, rounds take half of the free space.
Status UpdateLog::CheckRoom() const {
  const auto text = [](uint64_t bytes) { return FormatBytes(static_cast<double>(bytes)); };
  if (chain_.bytes() > options_.max_bytes) {
    return Exhausted(absl::StrFormat("%s has reached its %s: checkpoint more often", name_,
                                     text(options_.max_bytes)));
  }
  const uint64_t needed = checkpoint_bytes_ == 0
                              ? chain_.bytes()
                              : kCheckpoints * checkpoint_bytes_ + kBuffers * kBufferBytes;
  std::error_code unknown;
  const auto disk = std::filesystem::space(directory_, unknown);
  if (unknown || disk.available >= needed) return OkStatus();
  return Exhausted(
      absl::StrFormat("the disk of %s has %s left, and the next checkpoints need %s: make room, or "
                      "checkpoint more often",
                      name_, text(disk.available), text(needed)));
}

// What an older checkpoint would need, if the newest one turned out damaged, or is never completed,
// goes first.
Status UpdateLog::MakeRoom() {
  const Status full = CheckRoom();
  if (full.ok() || !chain_.Has(newest_)) return full;
  const uint64_t before = chain_.bytes();
  RW_RETURN_IF_ERROR(Forget({newest_}));
  if (chain_.bytes() < before) {
    Log(LogLevel::kWarning,
        absl::StrFormat("rounds before step %d are given up, which only an older checkpoint needs: "
                        "%s",
                        newest_.step, Message(full)));
  }
  return CheckRoom();
}

StatusOr<UpdateLog::Rounds> UpdateLog::After(uint64_t job, const CheckpointId& id) const {
  if (job == job_ && chain_.last()) return Rounds{job, chain_.After(id)};
  RW_ASSIGN_OR_RETURN(const Chain chain, Read(job));
  return Rounds{job, chain.After(id)};
}

UpdateLog::Rounds UpdateLog::Path(uint64_t after_step, uint64_t last_step) const {
  Rounds path{job_, {}};
  for (const LoggedUpdate& round : chain_.Path()) {
    if (round.step > after_step && round.step <= last_step) path.rounds.push_back(round);
  }
  return path;
}

StatusOr<v1::LoggedRound> UpdateLog::Head(const Rounds& rounds, size_t i) const {
  const std::string what = absl::StrFormat("step %d in %s", rounds.rounds[i].step, name_);
  std::string sealed;
  absl::ReaderMutexLock lock(&reading_);
  RW_RETURN_IF_ERROR(CheckOpen());
  RW_RETURN_IF_ERROR(Found(
      db_->Get(rocksdb::ReadOptions(), Key(rounds.job, rounds.rounds[i].sequence), &sealed), what));
  RW_ASSIGN_OR_RETURN(const auto entry, Unseal<v1::LogEntry>(sealed, what));
  return entry.round();
}

StatusOr<std::string> UpdateLog::Piece(const Rounds& rounds, size_t i, const v1::LoggedRound& head,
                                       int piece) const {
  const std::string what = absl::StrFormat("step %d in %s", rounds.rounds[i].step, name_);
  std::string data;
  absl::ReaderMutexLock lock(&reading_);
  RW_RETURN_IF_ERROR(CheckOpen());
  rocksdb::ReadOptions once;
  once.fill_cache = false;
  RW_RETURN_IF_ERROR(
      Found(db_->Get(once, pieces_, PieceKey(rounds.job, rounds.rounds[i].sequence, piece), &data),
            what));
  if (Digest(std::as_bytes(std::span(data))) != head.digests(piece)) {
    return Corrupt(absl::StrFormat("%s is damaged: piece %d has another checksum", what, piece));
  }
  return data;
}

size_t UpdateLog::CountGood(const Rounds& rounds, Status* problem) const {
  for (size_t i = 0; i < rounds.rounds.size(); ++i) {
    const auto head = Head(rounds, i);
    *problem = head.status();
    for (int piece = 0; problem->ok() && piece < head->digests_size(); ++piece) {
      *problem = Piece(rounds, i, *head, piece).status();
    }
    if (!problem->ok()) return i;
  }
  return rounds.rounds.size();
}

Status UpdateLog::Forget(std::vector<CheckpointId> kept) {
  RW_RETURN_IF_ERROR(Mend());
  for (const CheckpointId& id : kept) newest_ = std::max(newest_, id);
  kept.push_back(newest_);
  const uint64_t needed = chain_.FirstNeeded(kept);
  chain_.Forget(needed);
  const auto first = chain_.first();
  if (!first) return OkStatus();
  // The first span begins later now. Its entry is written before those after it go, and its place
  // is before theirs.
  RW_RETURN_IF_ERROR(WriteEntry(first->sequence, EntryOf(first->beginning)));
  const auto drop = [this](uint64_t begin, uint64_t end) {
    if (begin >= end) return OkStatus();
    return FromRocks(db_->DeleteRange(rocksdb::WriteOptions(), db_->DefaultColumnFamily(),
                                      Key(job_, begin), Key(job_, end)),
                     name_);
  };
  RW_RETURN_IF_ERROR(drop(0, first->sequence));
  RW_RETURN_IF_ERROR(drop(first->sequence + 1, needed));
  // Whole files only. What a file has beside rows that are needed goes with these: a tombstone for
  // it would reach back over all files before, and they would be copied.
  const std::string from = Key(job_, 0), to = Key(job_, needed);
  const rocksdb::Slice first_piece(from), end_piece(to);
  return FromRocks(rocksdb::DeleteFilesInRange(db_.get(), pieces_, &first_piece, &end_piece),
                   name_);
}

}  // namespace ringwood
