// Which checkpoints a store keeps: a pure decision.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "server/store/record/checkpoint_key.h"

namespace ringwood {

inline constexpr size_t kKeptCheckpoints = 2;  // never fewer: the newest may be damaged
// Of a job, that have not been read back: more are only where the disk cannot be read.
inline constexpr size_t kMaxUnread = 2;

struct Retention {
  size_t newest = kKeptCheckpoints;  // of each job; fewer than kKeptCheckpoints counts as those
  uint64_t every = 0;                // steps; 0: off, see Superfluous
};

struct Kept {
  CheckpointId id;
  uint64_t job = 0;
  bool bad = false;                      // known to be damaged
  bool pinned = false;                   // somebody asked for it to stay
  std::vector<CheckpointId> homes = {};  // in whose stripes other chunks of it lie, see homes.h
  bool unread = false;  // not read back from the disk yet, or found damaged when it was
};

// Which of the complete checkpoints (in any order) may be removed. What stays, of each job:
// the newest ones that are good, and what is newer than those; what is pinned;
// with `every` M, for each multiple of M the first good one at or after it and before the next.
// Good is what was read back and is not known to be bad. Of those that were not, the newest
// kMaxUnread stay beside as many good ones as would without them.
// So a run that was started afresh by mistake does not remove the old one's.
std::vector<CheckpointId> Superfluous(std::vector<Kept> complete, const Retention& retention);

}  // namespace ringwood
