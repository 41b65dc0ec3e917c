// Broadcast schedules over one slot. Where hosts are known, ranks are counted from the root on,
// host after host (dense/collective.cc), so that a chain enters and leaves each host once.
#pragma once

#include "transport/schedule.h"

namespace ringwood {

// root → root+1 → root+2 → …: every rank sends the data once; with chunks in a pipeline this
// reaches the wire's rate for long data.
Schedule BroadcastChain(int rank, int world, int root);

// Binomial tree: ⌈log2 P⌉ hops, for short data. With d = rank - root (mod P), d takes from d minus
// its lowest set bit:   0 → 4, 2, 1;   2 → 3;   4 → 6, 5;   6 → 7
Schedule BroadcastTree(int rank, int world, int root);

}  // namespace ringwood
