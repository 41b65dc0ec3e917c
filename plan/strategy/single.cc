#include "plan/strategy/lane.h"

namespace ringwood {

std::vector<size_t> Single(const LaneInput& lane) {
  std::vector<size_t> lasts;
  double bytes = 0;
  for (size_t j = 0, first = 0; j < lane.bytes.size(); ++j) {
    bytes += static_cast<double>(lane.bytes[j]);
    if (!Allowed(lane, first, j, bytes)) {  // the user's limit is the only thing that splits it
      lasts.push_back(j - 1);
      first = j;
      bytes = static_cast<double>(lane.bytes[j]);
    }
  }
  if (!lane.bytes.empty()) lasts.push_back(lane.bytes.size() - 1);
  return lasts;
}

}  // namespace ringwood
