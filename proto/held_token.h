// A token which may be renewed while calls are made: one that came from a file is read again from
// it, as a mounted secret is replaced.
#pragma once

#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/clock.h"
#include "base/status.h"

namespace ringwood {

class HeldToken {
 public:
  static constexpr double kLookSeconds = 1;  // between two looks at the file

  // `file`: where `token` was read, relative to the working directory of now; empty: it stays.
  HeldToken(std::string token, const std::string& file);

  // The token for a call that begins at `now`. One call a second reads the file, and no other call
  // waits for it. A file that cannot be read, as while it is being replaced, leaves the one before;
  // a warning says so once. Any thread.
  std::string At(TimePoint now) ABSL_LOCKS_EXCLUDED(mutex_);

  const std::string& file() const { return file_; }  // absolute, or empty

 private:
  bool BeginsLook(TimePoint now) ABSL_LOCKS_EXCLUDED(mutex_);
  void EndLook(StatusOr<std::string> read) ABSL_LOCKS_EXCLUDED(mutex_);

  const std::string file_;
  absl::Mutex mutex_;
  std::string token_ ABSL_GUARDED_BY(mutex_);
  bool warned_ ABSL_GUARDED_BY(mutex_) = false;  // until the file can be read again
  bool looking_ ABSL_GUARDED_BY(mutex_) = false;
  TimePoint next_look_ ABSL_GUARDED_BY(mutex_) = TimePoint::min();
};

}  // namespace ringwood
