// The processes that were taken out of the waiting room for the next epoch, and what they make of
// it: the record that is proposed, and from what an elastic job goes on. In node order: workers by
// rank, then servers. Pure.
#pragma once

#include <vector>

#include "server/coordinator/gathering/recovery.h"
#include "server/coordinator/gathering/waiting_room.h"
#include "server/coordinator/membership_options.h"

namespace ringwood {

// The worker that says what job this is and from what it starts: of an elastic job one that
// resumes, where one does (spares may have been started before there was anything to resume).
const Waiting& FirstOf(const std::vector<Waiting>& candidates);

// The record of an epoch with them, above `newest_epoch` and all that they have seen, before its
// base is known.
v1::EpochRecord RecordOf(const std::vector<Waiting>& candidates, uint64_t newest_epoch,
                         bool elastic);

// From what the epoch after `last` starts, where the job is elastic.
Recovery RecoverFrom(const std::vector<Waiting>& candidates, const v1::EpochRecord& last,
                     const MembershipOptions& options);

}  // namespace ringwood
