// ASC-WFBP (Shi, Chu, Li; INFOCOM 2021): two all-reduces at a time. A second message hides the
// first one's start-up, and slows its transfer.
#pragma once

#include <cstddef>
#include <vector>

#include "plan/strategy/lane.h"

namespace ringwood {

// At most two messages at a time, begun in order: the start-up (Cost::Startup) passes undisturbed;
// the rest of a message's time passes at rate 1/(1+penalty) while the other one also transfers.
Grouping PlayAsc(const LaneInput& lane, double penalty, const std::vector<size_t>& lasts);

// Our formulation (no code is public): MG-WFBP's rule, where the pending group could start as soon
// as either message slot is free.
std::vector<size_t> Asc(const LaneInput& lane, double penalty);

}  // namespace ringwood
