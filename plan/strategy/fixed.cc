#include "plan/strategy/lane.h"

namespace ringwood {
namespace {

constexpr double kFirstBucketBytes = 1 << 20;  // the defaults of PyTorch's DDP
constexpr double kBucketBytes = 25 * (1 << 20);

}  // namespace

// A bucket closes with the tensor that fills it.
std::vector<size_t> Fixed(const LaneInput& lane) {
  std::vector<size_t> lasts;
  double bytes = 0;
  size_t first = 0;
  for (size_t j = 0; j < lane.bytes.size(); ++j) {
    const double next = bytes + static_cast<double>(lane.bytes[j]);
    if (j > first && !Allowed(lane, first, j, next)) {
      lasts.push_back(j - 1);
      first = j;
      bytes = 0;
    }
    bytes += static_cast<double>(lane.bytes[j]);
    if (bytes >= (lasts.empty() ? kFirstBucketBytes : kBucketBytes)) {
      lasts.push_back(j);
      first = j + 1;
      bytes = 0;
    }
  }
  if (first < lane.bytes.size()) lasts.push_back(lane.bytes.size() - 1);
  return lasts;
}

}  // namespace ringwood
