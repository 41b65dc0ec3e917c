#include "dense/broadcast.h"

#include <bit>

#include "base/check.h"

namespace ringwood {

Schedule BroadcastChain(int rank, int world, int root) {
  RW_CHECK(world > 0 && rank >= 0 && rank < world && root >= 0 && root < world);
  Schedule schedule;
  const int distance = (rank - root + world) % world;
  if (distance > 0) schedule.push_back({Op::kReceive, (rank - 1 + world) % world, 0});
  if (distance + 1 < world) schedule.push_back({Op::kSend, (rank + 1) % world, 0});
  return schedule;
}

Schedule BroadcastTree(int rank, int world, int root) {
  RW_CHECK(world > 0 && rank >= 0 && rank < world && root >= 0 && root < world);
  Schedule schedule;
  const unsigned distance = static_cast<unsigned>((rank - root + world) % world);
  const unsigned lowest = distance & (~distance + 1);
  if (distance > 0) {
    schedule.push_back({Op::kReceive, static_cast<int>(distance - lowest + root) % world, 0});
  }
  // The farthest child first: its subtree is the deepest.
  unsigned bit = distance > 0 ? lowest >> 1 : std::bit_ceil(static_cast<unsigned>(world)) >> 1;
  for (; bit > 0; bit >>= 1) {
    if (distance + bit >= static_cast<unsigned>(world)) continue;
    schedule.push_back({Op::kSend, static_cast<int>(distance + bit + root) % world, 0});
  }
  return schedule;
}

}  // namespace ringwood
