// Calls that wait until their turn comes, without a thread each. Any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/clock.h"
#include "base/loop.h"

namespace ringwood {

class Turns {
 public:
  Turns() : loop_("turns") {}
  ~Turns() { Close(); }

  // Runs `go` once, after `delay`; at once where there is none, or when this is closed.
  void After(Duration delay, std::function<void()> go);

  // All that wait go at once, and so do later ones.
  void Close();

 private:
  void Go(uint64_t id);

  absl::Mutex mutex_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t last_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, std::function<void()>> waiting_ ABSL_GUARDED_BY(mutex_);
  Loop loop_;  // last: its thread uses the others
};

}  // namespace ringwood
