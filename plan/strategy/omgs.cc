#include <algorithm>
#include <optional>
#include <utility>

#include "base/check.h"
#include "plan/strategy/select_lane.h"

namespace ringwood {
namespace {

constexpr size_t kMostStates = 20'000'000;  // over all tensors: two seconds' search

struct Tail {  // the tensors of one group, summed
  double backward = 0;
  double elements = 0;
  double bytes = 0;
  void Add(const SelectLane& lane, size_t j) {
    backward += lane.backward_seconds[j];
    elements += lane.elements[j];
    bytes += lane.wire_bytes[j];
  }
};

// One way to have sent the first tensors.
struct State {
  double compute = 0;
  double lane = 0;
  size_t groups = 0;
  size_t from = 0;      // first tensor of the last group
  size_t previous = 0;  // index in the front at `from`
};

bool Better(const State& a, const State& b) {
  if (a.compute != b.compute) return a.compute < b.compute;
  if (a.lane != b.lane) return a.lane < b.lane;
  return a.groups < b.groups;
}

std::vector<State> Front(std::vector<State> states) {
  std::sort(states.begin(), states.end(), Better);
  std::vector<State> front;
  for (const State& state : states) {
    if (front.empty() || state.lane < front.back().lane) front.push_back(state);
  }
  return front;
}

}  // namespace

Grouping Play(const SelectLane& lane, const std::vector<size_t>& lasts) {
  Grouping grouping;
  double compute = 0;
  double free = 0;
  size_t first = 0;
  OnTheWay on_the_way(lane.window);
  for (const size_t last : lasts) {
    Tail tail;
    for (size_t j = first; j <= last; ++j) tail.Add(lane, j);
    compute += tail.backward + lane.selection.Seconds(tail.elements);
    Run run{first, last, std::max({free, compute, on_the_way.Room()}), 0, ""};
    free = run.start_seconds + lane.cost.Seconds(tail.bytes);
    run.end_seconds = free + lane.delay;
    on_the_way.Add(run.end_seconds);
    first = last + 1;
    grouping.push_back(std::move(run));
  }
  RW_CHECK(first == lane.elements.size());
  return grouping;
}

std::vector<size_t> Omgs(const SelectLane& lane) {
  std::vector<size_t> lasts;
  const size_t n = lane.elements.size();
  double compute = 0;  // end of backward and selection before the pending group
  double free = 0;
  Tail pending;
  for (size_t j = 0; j < n; ++j) {
    pending.Add(lane, j);
    if (j + 1 == n) {
      lasts.push_back(j);
      break;
    }
    const double selected = compute + pending.backward + lane.selection.Seconds(pending.elements);
    const double busy = std::max(free, selected) - selected;
    const double selection_change =
        lane.selection.Seconds(pending.elements + lane.elements[j + 1]) -
        lane.selection.Seconds(pending.elements) - lane.selection.Seconds(lane.elements[j + 1]);
    const double wait = lane.backward_seconds[j + 1] + selection_change - busy;
    if (wait < lane.cost.Startup()) continue;
    lasts.push_back(j);
    free = std::max(free, selected) + lane.cost.Seconds(pending.bytes);
    compute = selected;
    pending = Tail();
  }
  return lasts;
}

std::optional<std::vector<size_t>> OmgsExact(const SelectLane& lane) {
  const size_t n = lane.elements.size();
  std::vector<std::vector<State>> fronts(n + 1);
  fronts[0].push_back(State());
  size_t reached = 1;  // states of all fronts before j: the states that j looks at
  size_t looked_at = 0;
  for (size_t j = 1; j <= n; ++j) {
    looked_at += reached;
    const size_t left = n - j;  // tensors, each of which adds a state to its front, or more
    if (looked_at + left * reached + left * (left + 1) / 2 > kMostStates) return std::nullopt;
    std::vector<State> states;
    states.reserve(reached);
    Tail tail;
    for (size_t i = j; i-- > 0;) {
      tail.Add(lane, i);
      const double work = tail.backward + lane.selection.Seconds(tail.elements);
      const double message = lane.cost.Seconds(tail.bytes);
      for (size_t p = 0; p < fronts[i].size(); ++p) {
        const double compute = fronts[i][p].compute + work;
        states.push_back({compute, std::max(fronts[i][p].lane, compute) + message,
                          fronts[i][p].groups + 1, i, p});
      }
    }
    fronts[j] = Front(std::move(states));
    reached += fronts[j].size();
  }
  std::vector<size_t> lasts;
  size_t at = fronts[n].size() - 1;  // a front falls in `lane`
  for (size_t j = n; j > 0;) {
    lasts.push_back(j - 1);
    const State& state = fronts[j][at];
    j = state.from;
    at = state.previous;
  }
  std::reverse(lasts.begin(), lasts.end());
  return lasts;
}

}  // namespace ringwood
