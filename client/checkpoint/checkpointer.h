// Sends one checkpoint at a time to the store, from a thread of its own. A checkpoint that fails
// has no other effect: it is logged and counted, and Wait returns why.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/loop.h"
#include "client/checkpoint/arena.h"
#include "client/checkpoint/store_client.h"

namespace ringwood {

struct CheckpointLimits {
  // Most of a rank's part of a checkpoint, of which the arena holds a copy: more would take the
  // trainer's memory.
  uint64_t arena_bytes = 20000000000;
  double bytes_per_second = 0;  // to the store; 0: as fast as it goes
};

// Of the checkpoint that is under way, or of the last one.
struct CheckpointProgress {
  uint64_t step = 0;         // 0: there was none
  bool under_way = false;    // the next one waits for it
  uint64_t bytes = 0;        // of this rank's part
  uint64_t sent = 0;         // of them, to the store
  uint64_t arena_bytes = 0;  // that this rank's copy takes, and keeps for the next one
  double seconds = 0;        // from the copy to complete on all ranks, of the last that was
  uint64_t completed = 0;    // of this session
  uint64_t failed = 0;
};

class Checkpointer {
 public:
  // Told of each checkpoint that is complete on all ranks, or failed, but for those that fail while
  // their epoch is over and no other one runs. On any thread, under a lock.
  using Told = std::function<void(uint64_t step, bool complete, Duration took)>;

  explicit Checkpointer(StoreClient* store, const CheckpointLimits& limits = {},
                        Told ended = nullptr);
  ~Checkpointer();  // cancels the upload in flight

  // Waits for the checkpoint before, copies `items` but the steady ones and returns; the upload
  // continues. Returns errors in the items (no name, a name twice) and the end of the epoch. Errors
  // of store and arena are returned by Wait.
  Status Begin(const StripeName& stripe, const std::vector<Item>& items);

  // Returns when the steady items are copied, too: from then on they may change. The thread of
  // Begin.
  void Release() { arena_.Complete(); }

  CheckpointProgress progress();  // any thread

  // Returns when the last one is complete on all ranks, or why it is not, once. Nothing: the epoch
  // ended first, and the upload continues.
  std::optional<Status> Wait();

  // How long the last one that was completed took, from Begin on. Any thread.
  Duration took() { return Seconds(progress().seconds); }

  // The epoch is over: waits end, an upload in flight continues. The first reason is kept. Any
  // thread.
  void Interrupt(const Status& why);
  // Another epoch has begun. What is in flight ends as the store has it: complete, or why not.
  void Resume();

 private:
  // Returns when no upload is in flight, or the epoch is over, or nothing comes of it.
  void AwaitIdle() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Ended(const StripeName& stripe, const Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Keeps count, and waits for as long as the rate asks for.
  void Sent(uint64_t bytes);

  StoreClient* const store_;
  const double bytes_per_second_;
  const Told ended_;
  Arena arena_;  // the upload's while busy_, else the caller's; Complete is both's
  absl::Mutex mutex_;
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  CheckpointProgress progress_ ABSL_GUARDED_BY(mutex_);
  TimePoint sending_since_ ABSL_GUARDED_BY(mutex_);
  Status last_ ABSL_GUARDED_BY(mutex_);
  Status interrupted_ ABSL_GUARDED_BY(mutex_);
  // Last: its thread ends before the rest is destroyed.
  Loop loop_{"rw-upload", Loop::Pace::kBackground};
};

}  // namespace ringwood
