// Ring schedules: reduce-scatter, all-gather and both in a row (Patarasu, Yuan 2009: "Bandwidth
// optimal all-reduce algorithms"). Every rank sends and receives 2 (P-1)/P of the data.
//
// P slots; stage t of rank r, arrows to the next rank (P = 4, reduce-scatter):
//
//     stage        0       1       2
//     rank 0   0 ──►   3 ──►   2 ──►        sends slot r-t, reduces into slot r-t-1;
//     rank 1   1 ──►   0 ──►   3 ──►        after P-1 stages rank r owns slot r+1,
//     rank 2   2 ──►   1 ──►   0 ──►        the sum over all ranks.
//     rank 3   3 ──►   2 ──►   1 ──►
//
// Order of additions in slot s, documented because results repeat bit for bit:
//     ((x[s] + x[s+1]) + x[s+2]) + … + x[s+P-1], ranks modulo P.
#pragma once

#include "transport/schedule.h"

namespace ringwood {

// Slots: P. Afterwards rank r holds the complete slot (r+1) mod P.
Schedule RingReduceScatter(int rank, int world);
// Expects rank r to hold slot (r+1) mod P; afterwards every rank holds all.
Schedule RingAllGather(int rank, int world);
// One after the other.
Schedule RingAllReduce(int rank, int world);

}  // namespace ringwood
