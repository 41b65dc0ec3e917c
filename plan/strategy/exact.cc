#include <algorithm>
#include <limits>

#include "plan/strategy/lane.h"

namespace ringwood {
namespace {

// The best way to have sent the first j tensors.
struct Best {
  double end = std::numeric_limits<double>::infinity();
  size_t groups = 0;
  size_t from = 0;  // the last group starts here
};

}  // namespace

// end(0) = 0; end(j) = min over i<j of max(end(i), r_j) + T(S_j - S_i). A lane that is free earlier
// is never worse, because max and + are monotone; so the best prefix is a part of a best whole, for
// any monotone T (proof in docs/planner.md). A longer group costs no less, so the search for i ends
// where even a free lane would end later than the best so far. O(L^2) time at most, O(L) space.
std::vector<size_t> Exact(const LaneInput& lane) {
  const size_t n = lane.bytes.size();
  if (n > kMostExactTensors) return Oasr(lane);
  std::vector<Best> best(n + 1);
  best[0].end = 0;
  for (size_t j = 1; j <= n; ++j) {
    double bytes = 0;
    for (size_t i = j; i-- > 0;) {  // the last group is tensors i..j-1
      bytes += static_cast<double>(lane.bytes[i]);
      if (!Allowed(lane, i, j - 1, bytes)) break;
      const double seconds = lane.cost.Seconds(bytes);
      if (lane.ready_seconds[j - 1] + seconds > best[j].end) break;
      const double end = std::max(best[i].end, lane.ready_seconds[j - 1]) + seconds;
      const size_t groups = best[i].groups + 1;
      if (end < best[j].end || (end == best[j].end && groups < best[j].groups)) {
        best[j] = Best{end, groups, i};
      }
    }
  }
  std::vector<size_t> lasts;
  for (size_t j = n; j > 0; j = best[j].from) lasts.push_back(j - 1);
  std::reverse(lasts.begin(), lasts.end());
  return lasts;
}

}  // namespace ringwood
