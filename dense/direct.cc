#include "dense/direct.h"

#include "base/check.h"

namespace ringwood {

Schedule DirectExchange(int rank, int world) {
  RW_CHECK(world > 0 && rank >= 0 && rank < world);
  Schedule schedule;
  // Every rank begins with another peer, so that no card gets everything at once.
  const auto after = [=](int k) { return (rank + k) % world; };
  const auto before = [=](int k) { return (rank - k + world) % world; };
  for (int k = 1; k < world; ++k) schedule.push_back({Op::kSend, after(k), after(k)});
  for (int k = 1; k < world; ++k) schedule.push_back({Op::kReceiveReduce, before(k), rank});
  for (int k = 1; k < world; ++k) schedule.push_back({Op::kSend, after(k), rank});
  for (int k = 1; k < world; ++k) schedule.push_back({Op::kReceive, before(k), before(k)});
  return schedule;
}

}  // namespace ringwood
