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
  // Names are literals, so this is never reached; a further one would share the last place.
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
