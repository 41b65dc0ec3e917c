#include <algorithm>

#include "plan/strategy/lane.h"

namespace ringwood {

// As MG-WFBP, but the lane's idle time adds up over the whole pending group: one start-up is all
// that a group can win over closing earlier, so it is all that it may waste.
std::vector<size_t> Oasr(const LaneInput& lane) {
  std::vector<size_t> lasts;
  const double startup = lane.cost.Startup();
  double free = 0;
  double idle = 0;
  double bytes = 0;
  for (size_t j = 0, first = 0; j < lane.bytes.size(); ++j) {
    if (j > first) {
      const double start = std::max(free, lane.ready_seconds[j - 1]);
      const double wait = std::max(0.0, lane.ready_seconds[j] - start);
      const bool merge = idle + wait < startup;
      if (!merge || !Allowed(lane, first, j, bytes + static_cast<double>(lane.bytes[j]))) {
        lasts.push_back(j - 1);
        free = start + lane.cost.Seconds(bytes);
        first = j;
        bytes = 0;
        idle = 0;
      } else {
        idle += wait;
      }
    }
    bytes += static_cast<double>(lane.bytes[j]);
  }
  if (!lane.bytes.empty()) lasts.push_back(lane.bytes.size() - 1);
  return lasts;
}

}  // namespace ringwood
