#include "timeline/event.h"

namespace ringwood {

std::string NameOf(TimelineKind kind) {
  static constexpr const char* kNames[kTimelineKinds] = {
      "none",        "round begins", "gradient ready", "selection begins",
      "selected",    "group sends",  "group ended",    "wait begins",
      "voted",       "committed",    "applied",        "failed",
      "plan adopted"};
  const auto number = static_cast<uint8_t>(kind);
  return number < kTimelineKinds ? kNames[number] : "unknown";
}

}  // namespace ringwood
