#include "plan/strategy/dear.h"

#include <algorithm>
#include <limits>

#include "plan/strategy/lane.h"

namespace ringwood {
namespace {

constexpr double kForever = std::numeric_limits<double>::infinity();

// Let the all-gathers start at E and H(j) be what follows E until the forward of tensors 1..j ends.
// For the all-gather group (i, j]: H(j) = T(S_j - S_i) + max(W(1..j), H(i)), W = forward seconds:
// its tensors come first in the next forward, then wait for the groups behind. So E and H both
// build up in backward order, both are better when smaller, and the answer is the least E + H(L).
struct DearState {
  double scatter = 0;  // E so far
  double rest = 0;     // H so far
  size_t from = 0;
  size_t previous = 0;
  std::vector<size_t> inner;  // reduce-scatter groups inside the last all-gather group
};

std::vector<DearState> DearFront(std::vector<DearState> states) {
  std::sort(states.begin(), states.end(), [](const DearState& a, const DearState& b) {
    return a.scatter != b.scatter ? a.scatter < b.scatter : a.rest < b.rest;
  });
  std::vector<DearState> front;
  for (DearState& state : states) {
    if (front.empty() || state.rest < front.back().rest) front.push_back(std::move(state));
  }
  return front;
}

struct Sums {
  std::vector<double> bytes{0};
  std::vector<double> forward{0};
};

Sums SumsOf(const DearInput& input) {
  Sums sums;
  for (size_t j = 0; j < input.bytes.size(); ++j) {
    sums.bytes.push_back(sums.bytes.back() + static_cast<double>(input.bytes[j]));
    sums.forward.push_back(sums.forward.back() + input.forward_seconds[j]);
  }
  return sums;
}

// Exact plan of the reduce-scatter lane for tensors i.. when it is free at `free`: ends and froms.
struct Inner {
  std::vector<double> end;
  std::vector<size_t> from;
};

Inner ScatterFrom(const DearInput& input, const Sums& sums, size_t i, double free) {
  const size_t n = input.bytes.size();
  Inner inner{std::vector<double>(n + 1, kForever), std::vector<size_t>(n + 1, i)};
  inner.end[i] = free;
  for (size_t j = i + 1; j <= n; ++j) {
    for (size_t m = i; m < j; ++m) {
      const double end = std::max(inner.end[m], input.ready_seconds[j - 1]) +
                         input.reduce_scatter.Seconds(sums.bytes[j] - sums.bytes[m]);
      if (end < inner.end[j]) {
        inner.end[j] = end;
        inner.from[j] = m;
      }
    }
  }
  return inner;
}

std::vector<size_t> Boundaries(const Inner& inner, size_t i, size_t j) {
  std::vector<size_t> lasts;
  for (; j > i; j = inner.from[j]) lasts.push_back(j - 1);
  std::reverse(lasts.begin(), lasts.end());
  return lasts;
}

DearPlan Backtrack(const DearInput& input, const std::vector<std::vector<DearState>>& fronts) {
  const size_t n = fronts.size() - 1;
  size_t at = 0;
  for (size_t p = 1; p < fronts[n].size(); ++p) {
    const auto total = [&](size_t q) { return fronts[n][q].scatter + fronts[n][q].rest; };
    if (total(p) < total(at)) at = p;
  }
  std::vector<size_t> scatter;
  std::vector<size_t> gather;
  for (size_t j = n; j > 0;) {
    const DearState& state = fronts[j][at];
    gather.push_back(j - 1);
    scatter.insert(scatter.end(), state.inner.rbegin(), state.inner.rend());
    j = state.from;
    at = state.previous;
  }
  std::reverse(scatter.begin(), scatter.end());
  std::reverse(gather.begin(), gather.end());
  return PlayDear(input, std::move(scatter), std::move(gather));
}

// Unions of given reduce-scatter groups only: E is fixed, so the least H is enough.
DearPlan UnionsOf(const DearInput& input, const Sums& sums, const std::vector<size_t>& scatter) {
  const size_t groups = scatter.size();
  const auto edge = [&](size_t g) { return g == 0 ? 0 : scatter[g - 1] + 1; };
  std::vector<double> rest(groups + 1, kForever);
  std::vector<size_t> from(groups + 1, 0);
  rest[0] = 0;
  for (size_t g = 1; g <= groups; ++g) {
    for (size_t f = 0; f < g; ++f) {
      const double h = input.all_gather.Seconds(sums.bytes[edge(g)] - sums.bytes[edge(f)]) +
                       std::max(sums.forward[edge(g)], rest[f]);
      if (h < rest[g]) {
        rest[g] = h;
        from[g] = f;
      }
    }
  }
  std::vector<size_t> gather;
  for (size_t g = groups; g > 0; g = from[g]) gather.push_back(scatter[g - 1]);
  std::reverse(gather.begin(), gather.end());
  return PlayDear(input, scatter, std::move(gather));
}

}  // namespace

DearPlan PlayDear(const DearInput& input, std::vector<size_t> scatter_lasts,
                  std::vector<size_t> gather_lasts) {
  DearPlan plan;
  const LaneInput lane{input.ready_seconds, input.bytes, input.reduce_scatter, 0};
  plan.scatter_end_seconds = EndOf(Play(lane, scatter_lasts));
  double now = plan.scatter_end_seconds;
  double forward = now;
  for (size_t g = gather_lasts.size(); g-- > 0;) {
    const size_t first = g == 0 ? 0 : gather_lasts[g - 1] + 1;
    double bytes = 0;
    double work = 0;
    for (size_t j = first; j <= gather_lasts[g]; ++j) {
      bytes += static_cast<double>(input.bytes[j]);
      work += input.forward_seconds[j];
    }
    now += input.all_gather.Seconds(bytes);
    forward = std::max(forward, now) + work;
  }
  plan.forward_end_seconds = forward;
  plan.scatter_lasts = std::move(scatter_lasts);
  plan.gather_lasts = std::move(gather_lasts);
  return plan;
}

DearPlan PlanDearExact(const DearInput& input) {
  const size_t n = input.bytes.size();
  const Sums sums = SumsOf(input);
  if (n > kDearExact) {
    const LaneInput lane{input.ready_seconds, input.bytes, input.reduce_scatter, 0};
    return UnionsOf(input, sums, Exact(lane));
  }
  std::vector<std::vector<DearState>> candidates(n + 1);
  std::vector<std::vector<DearState>> fronts(n + 1);
  candidates[0].push_back(DearState());
  for (size_t i = 0; i <= n; ++i) {
    fronts[i] = DearFront(std::move(candidates[i]));
    for (size_t p = 0; p < fronts[i].size() && i < n; ++p) {
      const Inner inner = ScatterFrom(input, sums, i, fronts[i][p].scatter);
      for (size_t j = i + 1; j <= n; ++j) {
        const double rest = input.all_gather.Seconds(sums.bytes[j] - sums.bytes[i]) +
                            std::max(sums.forward[j], fronts[i][p].rest);
        // Dominated already: neither earlier nor shorter.
        const bool useless =
            std::any_of(candidates[j].begin(), candidates[j].end(), [&](const DearState& other) {
              return other.scatter <= inner.end[j] && other.rest <= rest;
            });
        if (!useless) {
          candidates[j].push_back({inner.end[j], rest, i, p, Boundaries(inner, i, j)});
        }
      }
    }
  }
  return Backtrack(input, fronts);
}

}  // namespace ringwood
