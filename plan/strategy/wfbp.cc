#include <numeric>

#include "plan/strategy/lane.h"

namespace ringwood {

std::vector<size_t> Wfbp(const LaneInput& lane) {
  std::vector<size_t> lasts(lane.bytes.size());
  std::iota(lasts.begin(), lasts.end(), size_t{0});
  return lasts;
}

}  // namespace ringwood
