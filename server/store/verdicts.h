// What is known of checkpoints that this process has read to the end, or found damaged. Any thread.
#pragma once

#include <map>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/status.h"
#include "server/store/record/checkpoint_key.h"

namespace ringwood {

class Verdicts {
 public:
  // Far more checkpoints than a store holds of the jobs that one server sees.
  static constexpr size_t kMost = 1024;

  // None: it was not read yet. An error: it is damaged.
  std::optional<Status> Of(const CheckpointId& id) const {
    absl::MutexLock lock(&mutex_);
    const auto found = verdicts_.find(id);
    return found == verdicts_.end() ? std::nullopt : std::optional(found->second);
  }
  bool Good(const CheckpointId& id) const {
    const std::optional<Status> verdict = Of(id);
    return verdict && verdict->ok();
  }
  bool Bad(const CheckpointId& id) const { return !Of(id).value_or(OkStatus()).ok(); }

  void Remember(const CheckpointId& id, const Status& verdict) {
    absl::MutexLock lock(&mutex_);
    verdicts_[id] = verdict;
    if (verdicts_.size() > kMost) verdicts_.erase(verdicts_.begin());
  }

 private:
  mutable absl::Mutex mutex_;
  std::map<CheckpointId, Status> verdicts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ringwood
