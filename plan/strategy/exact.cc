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

// end(0) = 0; end(j) = min over i<j of max(end(i), r_j) + T(S_j - S_i). A lane that is free earlier
// is never worse, because max and + are monotone; so the best prefix is a part of a best whole, for
// any monotone T (proof in docs/planner.md). A longer group costs no less, so the search for i ends
// where even a free lane would end later than the best so far. O(L^2) time at most, O(L) space.
std::vector<Best> BestPrefixes(const LaneInput& lane) {
  const size_t n = lane.bytes.size();
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
  return best;
}

}  // namespace

std::vector<size_t> Exact(const LaneInput& lane) {
  if (lane.bytes.size() > kMostExactTensors) return Oasr(lane);
  const std::vector<Best> best = BestPrefixes(lane);
  std::vector<size_t> lasts;
  for (size_t j = lane.bytes.size(); j > 0; j = best[j].from) lasts.push_back(j - 1);
  std::reverse(lasts.begin(), lasts.end());
  return lasts;
}

// From the last group on, each as long as the ones before it can still end in time. With an affine
// cost a longer group never makes more of them necessary: what it takes over is sent in as many
// seconds as it has cost the deadline, or fewer.
std::vector<size_t> Fewest(const LaneInput& lane, double slack) {
  const size_t n = lane.bytes.size();
  if (n > kMostExactTensors) return Oasr(lane);
  const std::vector<Best> best = BestPrefixes(lane);
  std::vector<size_t> lasts;
  double deadline = best[n].end * (1 + slack);  // of the first j tensors
  for (size_t j = n; j > 0;) {
    lasts.push_back(j - 1);
    size_t from = best[j].from;  // ends in time, but for rounding
    double start = best[from].end;
    double bytes = 0;
    for (size_t i = j; i-- > 0;) {
      bytes += static_cast<double>(lane.bytes[i]);
      const double latest = deadline - lane.cost.Seconds(bytes);
      if (!Allowed(lane, i, j - 1, bytes) || latest < lane.ready_seconds[j - 1]) break;
      if (best[i].end > latest) continue;
      from = i;
      start = latest;
    }
    deadline = start;
    j = from;
  }
  std::reverse(lasts.begin(), lasts.end());
  return lasts;
}

}  // namespace ringwood
