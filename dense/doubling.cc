#include "dense/doubling.h"

#include <bit>

#include "base/check.h"

namespace ringwood {

Schedule RecursiveDoubling(int rank, int world) {
  RW_CHECK(world > 0 && rank >= 0 && rank < world);
  const int core = static_cast<int>(std::bit_floor(static_cast<unsigned>(world)));
  if (rank >= core) return {{Op::kSend, rank - core, 0}, {Op::kReceive, rank - core, 0}};
  Schedule schedule;
  const bool has_extra = rank + core < world;
  if (has_extra) schedule.push_back({Op::kReceiveReduce, rank + core, 0});
  for (int distance = 1; distance < core; distance *= 2) {
    schedule.push_back({Op::kSend, rank ^ distance, 0});
    schedule.push_back({Op::kReceiveReduce, rank ^ distance, 0});
  }
  if (has_extra) schedule.push_back({Op::kSend, rank + core, 0});
  return schedule;
}

}  // namespace ringwood
