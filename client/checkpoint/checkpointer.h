// Sends one checkpoint at a time to the store, from a thread of its own. A checkpoint that fails
// has no other effect: it is logged and counted, and Wait returns why.
#pragma once

#include <atomic>
#include <functional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/loop.h"
#include "client/checkpoint/arena.h"
#include "client/checkpoint/store_client.h"

namespace ringwood {

class Checkpointer {
 public:
  // Most bytes of a rank's part of a checkpoint: more would take the trainer's memory.
  static constexpr uint64_t kArenaBytes = 16ull << 30;

  // Told of each checkpoint that is complete on all ranks, or failed, but for those that the end of
  // their epoch interrupts. On any thread, under a lock.
  using Told = std::function<void(uint64_t step, bool complete, Duration took)>;

  explicit Checkpointer(StoreClient* store, uint64_t arena_bytes = kArenaBytes,
                        Told ended = nullptr);
  ~Checkpointer();  // cancels the upload in flight

  // Waits for the checkpoint before, copies `items` and returns; the upload continues. Returns
  // errors in the items (no name, a name twice) and the end of the epoch. Errors of store and arena
  // are returned by Wait.
  Status Begin(const StripeName& stripe, const std::vector<Item>& items);

  // Returns when the last one is complete on all ranks, or why it is not, once.
  Status Wait();

  // How long the last one that was completed took, from Begin on. Any thread.
  Duration took() const { return Seconds(took_seconds_); }

  // The epoch is over: waits end, an upload in flight continues. The first reason is kept. Any
  // thread.
  void Interrupt(const Status& why);
  // Another epoch has begun. What is in flight is of the one before and fails by itself.
  void Resume();

 private:
  // Returns when no upload is in flight: OK, `interrupted_`, or TimedOut.
  Status AwaitIdle() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Ended(const StripeName& stripe, const Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  StoreClient* const store_;
  const Told ended_;
  Arena arena_;  // the upload's while busy_, else the caller's
  absl::Mutex mutex_;
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t failed_ ABSL_GUARDED_BY(mutex_) = 0;  // of this session
  Status last_ ABSL_GUARDED_BY(mutex_);
  Status interrupted_ ABSL_GUARDED_BY(mutex_);
  std::atomic<double> took_seconds_{0};
  Loop loop_{"rw-upload"};  // last: its thread ends before the rest is destroyed
};

}  // namespace ringwood
