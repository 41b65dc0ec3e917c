// The update log: what each committed round of a job changed, kept so that newest checkpoint + log
// make the state of the last committed step after the loss of all processes.
//
// One worker writes a round before it votes on it, so that no round is committed anywhere before it
// is here; the last one may never have been committed, and is applied then as if it had been, which
// nobody can contradict. In RocksDB, in the order in which they came:
//
//   pieces:   JOB SEQUENCE PIECE   a piece of a round's body
//   default:  JOB SEQUENCE         its LogEntry, sealed, written last; or how a history begins
//
// A killed process loses nothing of what was answered; a machine that loses power does, unless
// `fsync` is asked for. On one thread, but for what is said to be otherwise.
#pragma once

#include <rocksdb/db.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/clock.h"
#include "base/status.h"
#include "ringwood/v1/state.pb.h"
#include "ringwood/v1/updates.pb.h"
#include "server/store/database.h"
#include "server/store/lock_patience.h"
#include "server/updates/chain.h"

namespace ringwood {

struct UpdateLogOptions {
  bool on = false;                   // off: the rounds that are there are read, and none is taken
  bool fsync = false;                // a round outlives the loss of power, too
  uint64_t max_bytes = 64ull << 30;  // of a job's rounds
  rocksdb::Env* env = rocksdb::Env::Default();
};

class UpdateLog {
 public:
  ~UpdateLog();
  static StatusOr<std::unique_ptr<UpdateLog>> Open(const std::string& directory,
                                                   const UpdateLogOptions& options,
                                                   const LockPatience& patience = {});

  // An epoch begins, or its coordinator has come back. Of this job are all rounds from here on.
  Status SetEpoch(const v1::EpochRecord& record);

  // One piece after the other; true: the round is complete, and stays. A piece at offset 0 begins a
  // round and drops one that has not come to its end. Refused: the round does not follow the last
  // one (a gap). The caller has checked who sends.
  StatusOr<bool> Take(const v1::LogPiece& piece);

  // What is needed to read a job's rounds, on any thread while this lives.
  struct Rounds {
    uint64_t job = 0;
    std::vector<LoggedUpdate> rounds;
  };
  StatusOr<Rounds> After(uint64_t job, const CheckpointId& id) const;
  Rounds Path(uint64_t after_step, uint64_t last_step) const;  // of the present job

  bool on() const { return options_.on; }

  // Any thread. How many of them, from the first on, are whole; `problem` says what the next one
  // has.
  size_t CountGood(const Rounds& rounds, Status* problem) const;
  StatusOr<v1::LoggedRound> Head(const Rounds& rounds, size_t i) const;
  StatusOr<std::string> Piece(const Rounds& rounds, size_t i, const v1::LoggedRound& head,
                              int piece) const;

  // Drops what none of these checkpoints of the present job needs.
  Status Forget(std::vector<CheckpointId> kept);
  // A checkpoint takes so many bytes. The disk keeps room for the next ones, as only these let old
  // rounds go: before it would lack it, what only an older checkpoint needs is dropped, and then
  // Take answers Exhausted.
  void LeaveRoomFor(uint64_t checkpoint_bytes) { checkpoint_bytes_ = checkpoint_bytes; }

 private:
  StatusOr<bool> TakeOnce(const v1::LogPiece& piece);
  Status CheckRoom() const;
  Status MakeRoom();
  struct Incoming {
    v1::LoggedRound head;
    uint64_t sequence = 0;
  };

  UpdateLog(const std::string& directory, const UpdateLogOptions& options);

  Status OpenAgain(const LockPatience& patience);
  Status CheckOpen() const ABSL_SHARED_LOCKS_REQUIRED(reading_);

  StatusOr<Chain> Read(uint64_t job) const;
  Status Begin(const Beginning& beginning);
  Status Mend();
  Status Continue();
  Status Adopt(const v1::EpochRecord& record);
  Status Write(rocksdb::ColumnFamilyHandle* family, const std::string& key,
               const std::string& value, bool sync);
  Status WriteEntry(uint64_t sequence, const v1::LogEntry& entry);

  const std::string directory_;
  const std::string name_;
  const UpdateLogOptions options_;
  // Held shared by those that read on other threads, and while the database is opened again.
  mutable absl::Mutex reading_;
  std::unique_ptr<rocksdb::DB> db_;  // null: it could not be opened again
  rocksdb::ColumnFamilyHandle* pieces_ = nullptr;
  // A write failed: RocksDB refuses further ones, and may not come back from it by Resume.
  bool broken_ = false;
  std::optional<v1::EpochRecord> due_;  // an epoch that could not be adopted yet
  uint64_t job_ = 0;
  Chain chain_;  // of the present job
  uint64_t next_ = 0;
  std::optional<Incoming> incoming_;
  // The newest checkpoint, of the present job, that Forget was told of or after which rounds are
  // logged again, complete or not; {}: none.
  CheckpointId newest_;
  uint64_t checkpoint_bytes_ = 0;  // 0: no checkpoint was heard of
};

}  // namespace ringwood
