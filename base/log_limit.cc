#include "base/log_limit.h"

#include <utility>

namespace ringwood {

std::optional<uint64_t> LogLimit::Admit(const std::string& event, TimePoint now) {
  bool full = windows_.size() >= kMostEvents && !windows_.count(event);
  if (full) {
    std::erase_if(windows_,
                  [now](const auto& entry) { return now - entry.second.begun >= kWindow; });
    full = windows_.size() >= kMostEvents;
  }
  Window& window = windows_[full ? windows_.rbegin()->first : event];
  if (window.lines == 0 || now - window.begun >= kWindow) {
    window.begun = now;
    window.lines = 0;
  }
  if (window.lines == kMostLines) {
    ++window.left_out;
    return std::nullopt;
  }
  ++window.lines;
  return std::exchange(window.left_out, 0);
}

}  // namespace ringwood
