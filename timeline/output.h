// The file of a timeline, written on a thread of its own: the observed threads never wait for a
// disk.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/loop.h"
#include "base/status.h"

namespace ringwood {

class TimelineOutput {
 public:
  // Most batches that wait for the disk; further ones are dropped.
  static constexpr int kMaxWaiting = 64;

  // Replaces what is at `file`.
  static StatusOr<std::unique_ptr<TimelineOutput>> Create(const std::string& file);
  ~TimelineOutput();  // writes what is left, for ten seconds at most

  // Empties the file and begins it anew with `lines`. Any thread, as the next.
  void Begin(std::string lines);

  // Writes what `make` returns; both happen on the thread of the file.
  void Add(std::function<std::string()> make);

 private:
  TimelineOutput(std::string file, int descriptor);
  void Write(const std::string& lines);  // on the loop

  const std::string file_;
  const int descriptor_;  // touched only on the loop
  bool broken_ = false;   // touched only on the loop

  absl::Mutex mutex_;
  int waiting_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t left_out_ ABSL_GUARDED_BY(mutex_) = 0;

  std::unique_ptr<Loop> loop_;  // last: it uses everything above
};

}  // namespace ringwood
