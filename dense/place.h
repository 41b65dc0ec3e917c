// Where a worker stands among the nodes of its epoch, and what a hop costs there.
#pragma once

#include <vector>

#include "dense/choose.h"
#include "dense/hosts.h"

namespace ringwood {

struct Place {
  int rank = 0;
  int world = 1;      // workers
  Hosts hosts = {};   // of the workers; empty: each has one of its own
  HopCost cost = {};  // the same on all workers; fixed but for jobs that adapt
  int servers = 0;    // reducers; dense collectives are among workers only
  // A number for the host of each node, workers and servers (sparse/tree.h).
  std::vector<int> node_hosts = {};
  // Of a group of workers: its nodes in the epoch. Rank, world and hosts then count within the
  // group, and rank r is node members[r]. Empty: all workers, whose nodes are their ranks.
  std::vector<int> members = {};
};

inline int NodeOf(const Place& place, int rank) {
  return place.members.empty() ? rank : place.members[rank];
}

}  // namespace ringwood
