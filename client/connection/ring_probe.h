// What an all-reduce of this job costs, measured over the job's own rings.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "client/connection/collectives.h"
#include "plan/model/probe.h"

namespace ringwood {

// An all-reduce outside the plan, of a session or of an epoch's collectives: in the same order on
// every rank.
using AllReduceCall = std::function<Status(std::span<std::byte> data, DataType, ReduceOp)>;
AllReduceCall AllReduceOf(Collectives* collectives);  // with the strategy of the place

// Returns when all ranks have called it.
Status Barrier(const AllReduceCall& all_reduce);

// Collective. Messages of these `sizes` in bytes, rising, four rounds of which the first warms up.
// Times are this rank's, from a barrier to its own end.
StatusOr<ProbeResult> ProbeRing(const AllReduceCall& all_reduce,
                                const std::vector<uint64_t>& sizes);

}  // namespace ringwood
