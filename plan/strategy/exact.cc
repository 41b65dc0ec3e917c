#include <algorithm>
#include <limits>
#include <utility>

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

// Variants of `lane`, whose best groupings without the delay are then tried with it. A start-up
// that is dearer by a share of what a group may have to wait for the window gives fewer groups, a
// limit shorter ones.
std::vector<LaneInput> Trials(const LaneInput& lane) {
  if (lane.delay.seconds == 0) return {lane};
  constexpr size_t kLongSearch = 1024;  // tensors
  const std::vector<double> shares = lane.bytes.size() > kLongSearch
                                         ? std::vector<double>{0, 1}
                                         : std::vector<double>{0, 0.25, 0.5, 1, 2};
  std::vector<LaneInput> trials;
  for (const double share : shares) {
    LaneInput trial = lane;
    trial.cost = lane.cost.Plus(share * lane.delay.seconds / lane.window);
    trials.push_back(trial);
    const auto limit = static_cast<uint64_t>(lane.delay.short_bytes);
    if (limit == 0 || (lane.group_limit_bytes != 0 && lane.group_limit_bytes <= limit)) continue;
    trial.group_limit_bytes = limit;
    trials.push_back(std::move(trial));
  }
  return trials;
}

// Applies `choose` to every trial. Of the groupings that end at most `slack` later than the
// earliest one, that with the fewest groups.
template <class Choose>
std::vector<size_t> BestOfTrials(const LaneInput& lane, double slack, const Choose& choose) {
  std::vector<std::pair<double, std::vector<size_t>>> plans;  // end, lasts
  double least = std::numeric_limits<double>::infinity();
  for (const LaneInput& trial : Trials(lane)) {
    std::vector<size_t> lasts = choose(trial);
    const double end = EndOf(Play(lane, lasts));
    least = std::min(least, end);
    plans.emplace_back(end, std::move(lasts));
  }
  std::erase_if(plans, [&](const auto& plan) { return plan.first > least * (1 + slack); });
  return std::min_element(
             plans.begin(), plans.end(),
             [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); })
      ->second;
}

std::vector<size_t> ExactWithoutDelay(const LaneInput& lane) {
  const std::vector<Best> best = BestPrefixes(lane);
  std::vector<size_t> lasts;
  for (size_t j = lane.bytes.size(); j > 0; j = best[j].from) lasts.push_back(j - 1);
  std::reverse(lasts.begin(), lasts.end());
  return lasts;
}

// Begins with the last group and makes each as long as the groups before it can still end in time.
// With an affine cost a longer group never makes more groups necessary: those before it must end
// earlier by the time of the bytes that it takes over at most, and have so many bytes fewer to
// send.
std::vector<size_t> FewestWithoutDelay(const LaneInput& lane, double slack) {
  const size_t n = lane.bytes.size();
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

}  // namespace

std::vector<size_t> Exact(const LaneInput& lane) {
  if (lane.bytes.size() > kMostExactTensors) return Oasr(lane);
  return BestOfTrials(lane, 0, ExactWithoutDelay);
}

std::vector<size_t> Fewest(const LaneInput& lane, double slack) {
  if (lane.bytes.size() > kMostExactTensors) return Oasr(lane);
  return BestOfTrials(lane, slack,
                      [&](const LaneInput& trial) { return FewestWithoutDelay(trial, slack); });
}

}  // namespace ringwood
