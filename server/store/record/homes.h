// Chunks that several checkpoints share. Pure.
//
// A chunk lies in the stripes of one checkpoint, its home. A later checkpoint that has the same
// bytes names the home and stores nothing. It always names the home itself, never a checkpoint that
// has the chunk from there: to read one takes one step, and who is gone between does not matter.
//
//   stripes of 10      stripes of 20      stripes of 30      stripes of 40
//   [a b c]            [a b d]            [e]                [f]
//      10: a b c          20: a b d          30: a b from 10, e     40: a b from 20, f
//
// The newest two good checkpoints of a job share nothing, so that no damaged byte is in both: each
// takes chunks of the one before the last, and what never changes is on the disk twice. While one
// of these two has not been read back it takes none, as nobody knows yet which will be the good
// ones.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "server/store/record/checkpoint_key.h"
#include "server/store/record/retention.h"

namespace ringwood {

// By home: the bytes of all chunks in its stripes.
using HomeSizes = std::map<CheckpointId, uint64_t>;

// Of the complete checkpoints (in any order), the one whose chunks the next one of `job` may have:
// the newest good one that shares nothing with the newest good one of the job, where both were read
// back.
std::optional<CheckpointId> BaseOf(uint64_t job, const std::vector<Kept>& complete);

// What lies in the store and belongs to nothing: `present` are the checkpoints that have chunks
// there, `used` those that are complete or being made, with their homes.
std::vector<CheckpointId> Unneeded(const std::vector<CheckpointId>& present,
                                   const std::vector<Kept>& used);

}  // namespace ringwood
