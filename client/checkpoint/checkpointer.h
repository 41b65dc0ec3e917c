// Sends one checkpoint at a time to the store, from a thread of its own. A checkpoint that fails
// costs itself and nothing else: it is logged and counted, and Wait tells why.
#pragma once

#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/loop.h"
#include "client/checkpoint/arena.h"
#include "client/checkpoint/store_client.h"

namespace ringwood {

class Checkpointer {
 public:
  // A rank's part of a checkpoint at most; beyond it, saving would push the trainer out of memory.
  static constexpr uint64_t kArenaBytes = 16ull << 30;

  explicit Checkpointer(StoreClient* store, uint64_t arena_bytes = kArenaBytes);
  ~Checkpointer();  // cancels what is under way

  // Waits for the checkpoint before, copies `items`, returns while they travel. An error is the
  // caller's (items without a name or with the same one) or the end of the epoch; what the store or
  // the arena refuses is left to Wait.
  Status Begin(const StripeName& stripe, const std::vector<Item>& items);

  // Until the last one is complete on all ranks; why it is not, once.
  Status Wait();

  // The epoch is over: from now on nobody waits, what travels goes on. The first reason stays. Any
  // thread.
  void Interrupt(const Status& why);

 private:
  // Until nothing travels: OK, `interrupted_`, or TimedOut.
  Status AwaitIdle() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Ended(const StripeName& stripe, const Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  StoreClient* const store_;
  Arena arena_;  // the upload's while busy_, else the caller's
  absl::Mutex mutex_;
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t failed_ ABSL_GUARDED_BY(mutex_) = 0;  // of this session
  Status last_ ABSL_GUARDED_BY(mutex_);
  Status interrupted_ ABSL_GUARDED_BY(mutex_);
  Loop loop_{"rw-upload"};  // last: nothing runs on it when the rest goes
};

}  // namespace ringwood
