#include "dense/direct.h"

#include "base/check.h"

namespace ringwood {
namespace {

// Every rank begins with another peer, so that no NIC gets everything at once.
int After(int rank, int k, int world) { return (rank + k) % world; }
int Before(int rank, int k, int world) { return (rank - k + world) % world; }

}  // namespace

Schedule DirectReduceScatter(int rank, int world) {
  RW_CHECK(world > 0 && rank >= 0 && rank < world);
  Schedule schedule;
  for (int k = 1; k < world; ++k) {
    const int peer = After(rank, k, world);
    schedule.push_back({Op::kSend, peer, peer});
  }
  for (int k = 1; k < world; ++k) {
    schedule.push_back({Op::kReceiveReduce, Before(rank, k, world), rank});
  }
  return schedule;
}

Schedule DirectAllGather(int rank, int world) {
  RW_CHECK(world > 0 && rank >= 0 && rank < world);
  Schedule schedule;
  for (int k = 1; k < world; ++k) {
    schedule.push_back({Op::kSend, After(rank, k, world), rank, false, world});
  }
  for (int k = 1; k < world; ++k) {
    const int peer = Before(rank, k, world);
    schedule.push_back({Op::kReceive, peer, peer, false, world});
  }
  return schedule;
}

Schedule DirectExchange(int rank, int world) {
  Schedule schedule = DirectReduceScatter(rank, world);
  const Schedule gather = DirectAllGather(rank, world);
  schedule.insert(schedule.end(), gather.begin(), gather.end());
  return schedule;
}

}  // namespace ringwood
