// Log lines about refused strangers, at most one in ten seconds: a stranger must not be able to
// fill a log.
#pragma once

#include <string>

#include "absl/strings/str_format.h"
#include "base/clock.h"
#include "base/log.h"

namespace ringwood {

class Refusals {
 public:
  static constexpr double kPauseSeconds = 10;

  // The line to log now; "" within ten seconds of the one before. Tells how many were left out.
  std::string Line(const std::string& what, TimePoint now) {
    if (said_ && now - last_ < Seconds(kPauseSeconds)) {
      ++silent_;
      return "";
    }
    std::string line = what;
    if (silent_ > 0) line += absl::StrFormat(" (and %d like it before, not shown)", silent_);
    said_ = true;
    silent_ = 0;
    last_ = now;
    return line;
  }
  void Say(const std::string& what, TimePoint now) {
    const std::string line = Line(what, now);
    if (!line.empty()) Log(LogLevel::kWarning, line);
  }

 private:
  bool said_ = false;
  int silent_ = 0;
  TimePoint last_;
};

}  // namespace ringwood
