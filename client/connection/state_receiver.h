// Fetches the job's state from the workers that have it, in stripes, while this worker takes part
// in the first round of its epoch.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/buffer.h"
#include "base/status.h"
#include "client/connection/epoch_link.h"
#include "client/connection/state_wire.h"

namespace ringwood {

class StateReceiver : public std::enable_shared_from_this<StateReceiver> {
 public:
  // From the epoch's holders, of which this worker is none.
  static std::shared_ptr<StateReceiver> Start(EpochLink* link);

  // Waits until all is there, at most `limit`; the end of the epoch ends it.
  Status Wait(Duration limit);
  // After Wait was OK.
  const std::vector<StateItem>& items() const { return items_; }

 private:
  struct Holder {
    int rank = 0;
    std::string label;
    StateHead head;
  };

  // All on the net loop.
  void AskForHeads(Transport* transport);
  Status TakeHeads();
  Status TakeList();
  void Ask(Transport* transport, size_t stripe, uint64_t i);
  void Done(const Status& status);

  std::vector<Holder> holders_;
  size_t heads_ = 0;  // that are there
  uint64_t pieces_ = 0, arrived_ = 0;
  std::vector<StateItem> items_;  // over row_
  Buffer<std::byte> row_;
  const std::byte request_{};

  absl::Mutex mutex_;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
  Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ringwood
