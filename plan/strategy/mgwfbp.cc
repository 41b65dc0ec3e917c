#include <algorithm>

#include "plan/strategy/lane.h"

namespace ringwood {

// O(L). The wait for tensor j counts from the moment the pending group could start.
std::vector<size_t> MgWfbp(const LaneInput& lane) {
  std::vector<size_t> lasts;
  const double startup = lane.cost.Startup();
  double free = 0;  // when the groups that are closed have left the lane
  double bytes = 0;
  for (size_t j = 0, first = 0; j < lane.bytes.size(); ++j) {
    if (j > first) {
      const double start = std::max(free, lane.ready_seconds[j - 1]);
      const bool merge = lane.ready_seconds[j] - start < startup;
      if (!merge || !Allowed(lane, first, j, bytes + static_cast<double>(lane.bytes[j]))) {
        lasts.push_back(j - 1);
        free = start + lane.cost.Seconds(bytes);
        first = j;
        bytes = 0;
      }
    }
    bytes += static_cast<double>(lane.bytes[j]);
  }
  if (!lane.bytes.empty()) lasts.push_back(lane.bytes.size() - 1);
  return lasts;
}

}  // namespace ringwood
