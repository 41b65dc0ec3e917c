// What a member is told when its epoch begins. Pure.
#pragma once

#include <vector>

#include "ringwood/v1/state.pb.h"
#include "server/coordinator/membership_options.h"
#include "server/coordinator/roster.h"

namespace ringwood {

// `holders`: nodes that have the epoch's base, where that is with members; else empty.
v1::JoinResponse WelcomeTo(uint32_t node, const MembershipOptions& options,
                           const v1::EpochRecord& record, const Roster& roster,
                           const std::vector<uint32_t>& holders);

}  // namespace ringwood
