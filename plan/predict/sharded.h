// Entries sharded by index range: server s owns slot s; every worker sends it that slot and gets
// the result back. All servers' cards share the load.
#pragma once

#include "transport/schedule.h"

namespace ringwood {

// Nodes: workers 0..workers-1, then servers. Worker w begins with server w mod S, so that in every
// stage the servers are equally busy; servers answer in the same rotation.
Schedule ShardedSchedule(int workers, int servers, int node);

}  // namespace ringwood
