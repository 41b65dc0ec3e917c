// One event of a session, in 40 bytes: what timelines and flight records are made of.
#pragma once

#include <cstdint>
#include <string>

namespace ringwood {

enum class TimelineKind : uint8_t {
  kNone = 0,
  kRound,        // a round begins
  kReady,        // index: tensor
  kSelect,       // index: group; packing or selection begins
  kSelected,     // index: group
  kGroup,        // index: group; it has its lane
  kGroupEnded,   // index: group; value: bytes sent
  kWait,         // the trainer waits for the groups
  kVoted,        // value: digest
  kCommitted,    // value: 1 if skipped
  kApplied,      // the averages are in place
  kFailed,       // the epoch is over here; round: 0
  kPlanAdopted,  // index: groups; value: the plan's hash
};
inline constexpr uint8_t kTimelineKinds = 13;

struct TimelineEvent {
  int64_t nanoseconds = 0;  // of the monotonic clock of the rank's host
  uint64_t round = 0;
  uint64_t value = 0;
  uint32_t index = 0;
  TimelineKind kind = TimelineKind::kNone;
  bool operator==(const TimelineEvent&) const = default;
};

// "ready", "group ended", …
std::string NameOf(TimelineKind kind);

}  // namespace ringwood
