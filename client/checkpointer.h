// Sends one checkpoint at a time to the store, from a thread of its own.
#pragma once

#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/loop.h"
#include "client/arena.h"
#include "client/store_client.h"

namespace ringwood {

class Checkpointer {
 public:
  // A rank's part of a checkpoint at most; beyond it, saving would push the trainer out of memory.
  static constexpr uint64_t kArenaBytes = 16ull << 30;

  explicit Checkpointer(StoreClient* store);
  ~Checkpointer();  // cancels what is under way

  // Waits for the checkpoint before, copies `items`, returns while they travel. The error of the
  // checkpoint before is returned, after the new one was begun: it is reported, nothing is undone.
  Status Begin(const StripeName& stripe, const std::vector<Item>& items);

  // Until the last one is complete on all ranks; its error, once.
  Status Wait();

 private:
  StoreClient* const store_;
  Arena arena_{kArenaBytes};  // the upload's while busy_, else the caller's
  absl::Mutex mutex_;
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;
  Status last_ ABSL_GUARDED_BY(mutex_);
  Loop loop_{"rw-upload"};  // last: nothing runs on it when the rest goes
};

}  // namespace ringwood
