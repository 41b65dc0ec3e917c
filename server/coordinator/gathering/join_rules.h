// What a process must bring to wait for an epoch of this coordinator. Pure.
#pragma once

#include <string>

#include "base/status.h"
#include "ringwood/v1/state.pb.h"
#include "server/coordinator/event.h"
#include "server/coordinator/membership_options.h"

namespace ringwood {

// "rank 3 (host h2)"
std::string LabelOfJoin(const v1::JoinRequest& request);

// `newest`: the record of the newest epoch on disk. Identity is looked at first: what else a
// stranger brings is neither kept nor repeated. The error says what to do.
Status CheckJoin(const v1::JoinRequest& request, const v1::EpochRecord& newest,
                 const MembershipOptions& options);

// A member may have seen epochs that a coordinator without its disk has forgotten; an error for a
// number so far ahead of `newest_epoch` that it is not from a job of this coordinator.
Status CheckEpochSeen(const v1::JoinRequest& request, uint64_t newest_epoch);

}  // namespace ringwood
