#include "timeline/event.h"

namespace ringwood {

std::string NameOf(TraceKind kind) {
  static constexpr const char* kNames[kTraceKinds] = {
      "none",        "round begins", "gradient ready", "selection begins",
      "selected",    "group sends",  "group ended",    "wait begins",
      "voted",       "committed",    "applied",        "failed",
      "plan adopted"};
  const auto number = static_cast<uint8_t>(kind);
  return number < kTraceKinds ? kNames[number] : "unknown";
}

}  // namespace ringwood
