// How far a long read or write is, for a person at a terminal.
#pragma once

#include <cstdint>
#include <string>

#include "base/clock.h"

namespace ringwood {

// "verifying step 40  [######......]  50 %  1 GiB of 2 GiB  250 MiB/s  0:04 left", at most
// `columns` wide.
std::string ProgressLine(const std::string& what, uint64_t done, uint64_t all, double seconds,
                         size_t columns);

// One line of standard error that is written again and again, and removed at the end. Nothing
// where standard error is no terminal, and in the first half second.
class ProgressBar {
 public:
  explicit ProgressBar(std::string what);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  void Show(uint64_t done, uint64_t all);

 private:
  const std::string what_;
  const bool on_;
  const TimePoint begin_;
  TimePoint next_;
  bool shown_ = false;
};

}  // namespace ringwood
