#include "dense/doubling.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace ringwood {
namespace {

// Of the block of `distance` ranks with `rank` in it, and of the ranks beyond the core that joined
// them.
int TermsOf(int rank, int distance, int core, int world) {
  const int begin = rank & ~(distance - 1);
  return distance + std::clamp(world - core - begin, 0, distance);
}

}  // namespace

Schedule RecursiveDoubling(int rank, int world) {
  RW_CHECK(world > 0 && rank >= 0 && rank < world);
  const int core = static_cast<int>(std::bit_floor(static_cast<unsigned>(world)));
  if (rank >= core) {
    return {{Op::kSend, rank - core, 0}, {Op::kReceive, rank - core, 0, false, world}};
  }
  Schedule schedule;
  const bool has_extra = rank + core < world;
  if (has_extra) schedule.push_back({Op::kReceiveReduce, rank + core, 0});
  for (int distance = 1; distance < core; distance *= 2) {
    const int peer = rank ^ distance;
    schedule.push_back({Op::kSend, peer, 0, false, TermsOf(rank, distance, core, world)});
    schedule.push_back({Op::kReceiveReduce, peer, 0, false, TermsOf(peer, distance, core, world)});
  }
  if (has_extra) schedule.push_back({Op::kSend, rank + core, 0, false, world});
  return schedule;
}

}  // namespace ringwood
