// Direct exchange: reduce-scatter and all-gather without a ring, two hops for any world. As many
// messages and bytes as the ring (2(P-1) messages, 2(P-1)/P of the data), but none waits for a
// chain of others; all P-1 messages of a phase are on the wire at once.
//
// P slots, rank r owns slot r. P = 4, rank 1:
//     phase 1   0 ◄─ slot 0,  2 ◄─ slot 2,  3 ◄─ slot 3       takes slot 1 of 0, 3 and 2
//     phase 2   slot 1 ─► 2, 3, 0                             takes slot 0, 3, 2 of their owners
//
// Order of additions in slot s: ((x[s] + x[s-1]) + x[s-2]) + … + x[s-P+1], ranks modulo P.
#pragma once

#include "transport/schedule.h"

namespace ringwood {

// Afterwards rank r holds the complete slot r.
Schedule DirectReduceScatter(int rank, int world);
// Expects rank r to hold slot r; afterwards every rank holds all.
Schedule DirectAllGather(int rank, int world);
// One after the other.
Schedule DirectExchange(int rank, int world);

}  // namespace ringwood
