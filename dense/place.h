// Where a worker stands among the nodes of its epoch, and what a hop costs there.
#pragma once

#include "dense/choose.h"
#include "dense/hosts.h"

namespace ringwood {

struct Place {
  int rank = 0;
  int world = 1;      // workers
  Hosts hosts = {};   // of the workers; empty: each has one of its own
  HopCost cost = {};  // the same on all workers; fixed but for jobs that adapt
  int servers = 0;    // reducers; dense collectives are among workers only
};

}  // namespace ringwood
