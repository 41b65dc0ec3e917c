// Admits a limited number at once; a limited number of others wait in order of arrival. Any thread;
// `go` never runs under the lock.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace ringwood {

class Turnstile {
 public:
  Turnstile(size_t inside, size_t waiting) : most_inside_(inside), most_waiting_(waiting) {}

  // Runs `go` at once, or later on a thread that leaves. False: too many wait, it will not run.
  bool Enter(uint64_t id, std::function<void()> go) {
    {
      absl::MutexLock lock(&mutex_);
      if (inside_.size() >= most_inside_) {
        if (waiting_.size() >= most_waiting_) return false;
        waiting_.emplace(id, std::move(go));
        return true;
      }
      inside_.insert(id);
    }
    go();
    return true;
  }

  // True: `id` was waiting, its `go` will not run.
  bool Cancel(uint64_t id) {
    absl::MutexLock lock(&mutex_);
    return waiting_.erase(id) != 0;
  }

  // Admits the next one if `id` was inside.
  void Leave(uint64_t id) {
    std::function<void()> go;
    {
      absl::MutexLock lock(&mutex_);
      if (inside_.erase(id) == 0 || waiting_.empty()) return;
      auto next = waiting_.extract(waiting_.begin());
      inside_.insert(next.key());
      go = std::move(next.mapped());
    }
    go();
  }

 private:
  const size_t most_inside_, most_waiting_;
  absl::Mutex mutex_;
  std::set<uint64_t> inside_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, std::function<void()>> waiting_ ABSL_GUARDED_BY(mutex_);  // ids grow
};

}  // namespace ringwood
