#include "dense/ring.h"

#include "base/check.h"

namespace ringwood {
namespace {

int Modulo(int value, int world) { return ((value % world) + world) % world; }

// P-1 stages: send slot `first`, take slot `first`-1 from the previous rank, and so on downwards.
Schedule Stages(int rank, int world, int first, Op take) {
  RW_CHECK(world > 0 && rank >= 0 && rank < world);
  Schedule schedule;
  const int next = Modulo(rank + 1, world);
  const int previous = Modulo(rank - 1, world);
  for (int stage = 0; stage + 1 < world; ++stage) {
    const int terms = take == Op::kReceiveReduce ? stage + 1 : world;
    schedule.push_back({Op::kSend, next, Modulo(first - stage, world), false, terms});
    schedule.push_back({take, previous, Modulo(first - stage - 1, world), false, terms});
  }
  return schedule;
}

}  // namespace

Schedule RingReduceScatter(int rank, int world) {
  return Stages(rank, world, rank, Op::kReceiveReduce);
}

Schedule RingAllGather(int rank, int world) { return Stages(rank, world, rank + 1, Op::kReceive); }

Schedule RingAllReduce(int rank, int world) {
  Schedule schedule = RingReduceScatter(rank, world);
  const Schedule gather = RingAllGather(rank, world);
  schedule.insert(schedule.end(), gather.begin(), gather.end());
  return schedule;
}

}  // namespace ringwood
