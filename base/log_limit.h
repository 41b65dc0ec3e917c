// Which lines of a log are written: of each event kMostLines within kWindow, then the number of
// those that were left out with the next one. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/clock.h"

namespace ringwood {

class LogLimit {
 public:
  static constexpr int kMostLines = 20;
  static constexpr Duration kWindow = std::chrono::seconds(10);
  // Most events that have a window. Where there are more, those whose window is over are forgotten,
  // with the number of their lines that were left out; while none is over, further events share the
  // last one's window.
  static constexpr size_t kMostEvents = 256;

  // Nothing: the line is left out. Else how many of this event were, since the last one written.
  std::optional<uint64_t> Admit(const std::string& event, TimePoint now);

 private:
  struct Window {
    TimePoint begun;
    int lines = 0;
    uint64_t left_out = 0;
  };
  std::map<std::string, Window> windows_;
};

}  // namespace ringwood
