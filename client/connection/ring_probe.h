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

// Of a measurement that a job makes by itself: turns that together take longer tell enough.
constexpr double kEnoughSeconds = 0.25;

// How many turns a measurement takes behind the first, which took the slowest rank so many seconds:
// as many as take `enough_seconds`, at most `most`. Where delays are long one turn takes long, and
// tells enough: 0 then, and the first one, which warms up where others follow, is what counts.
int TurnsBehind(double first_seconds, double enough_seconds, int most);

// The same number on all ranks, each of which says what the first turn took it. Collective.
StatusOr<int> AgreeOnTurns(const AllReduceCall& all_reduce, double first_seconds,
                           double enough_seconds, int most);

// Collective. Messages of these `sizes` in bytes, rising, in up to four turns of which the first
// warms up, and in fewer once they take `enough_seconds`. Times are this rank's, from a barrier to
// its own end.
StatusOr<ProbeResult> ProbeRing(const AllReduceCall& all_reduce, const std::vector<uint64_t>& sizes,
                                double enough_seconds);

}  // namespace ringwood
