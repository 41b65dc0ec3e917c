// For each threshold,
//   end(0, 0) = 0
//   end(i, j) = min over i' < i of max(end(i', j), ready of ring tensors i'..i-1) + T_ring
//               and over j' < j of max(end(i, j'), selected of tree tensors j'..j-1) + T_tree
// is the earliest end after the first i ring and j tree tensors (a NIC free earlier is never
// worse).
// Where the network has a delay, what was sent ends later, and a lane's window may be full: the
// same search is repeated with dearer start-ups and shorter ring groups, and what it finds competes
// by its end with delays.
#include "plan/strategy/candidates.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>
#include <set>

#include "plan/strategy/nic.h"
#include "sparse/entries.h"

namespace ringwood {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr size_t kMostThresholds = 48;
constexpr double kMostWork = 4e8;   // transitions over all thresholds: a second or two
constexpr double kMostCells = 8e6;  // and what one of them remembers: 200 MB

struct Cell {
  double end = kNever;
  uint32_t groups = 0;
  uint32_t from_ring = 0;
  uint32_t from_tree = 0;
};

struct Split {
  std::vector<uint32_t> ring;
  std::vector<uint32_t> tree;
};

Split SplitAt(const Problem& problem, uint64_t threshold) {
  Split split;
  for (uint32_t t = 0; t < problem.input->tensors.size(); ++t) {
    const TensorSpec& tensor = problem.input->tensors[t];
    const bool sparse =
        tensor.route == "sparse" || (tensor.route == "auto" && tensor.elements >= threshold &&
                                     tensor.elements <= kMaxGroupElements);
    (sparse ? split.tree : split.ring).push_back(t);
  }
  return split;
}

// Thresholds that make a difference: the sizes of the free tensors, and "none is sparse".
std::vector<uint64_t> Thresholds(const Problem& problem) {
  const PlanInput& input = *problem.input;
  std::set<uint64_t> sizes;
  if (input.world > 1) {
    for (const TensorSpec& tensor : input.tensors) {
      if (tensor.route == "auto" && tensor.density < 1 && tensor.elements <= kMaxGroupElements) {
        sizes.insert(tensor.elements);
      }
    }
  }
  std::vector<uint64_t> thresholds(sizes.begin(), sizes.end());
  if (thresholds.size() > kMostThresholds) {
    std::vector<uint64_t> some;
    for (size_t i = 0; i < kMostThresholds; ++i) {
      some.push_back(thresholds[i * thresholds.size() / kMostThresholds]);
    }
    thresholds = std::move(some);
  }
  thresholds.push_back(std::numeric_limits<uint64_t>::max());
  return thresholds;
}

// What a search assumes of groups, beside their costs.
struct Trial {
  double share = 0;         // of what a group may wait for its lane's window, added to its start-up
  uint64_t ring_limit = 0;  // bytes; 0: none
};

std::vector<Trial> Trials(const Problem& problem) {
  const uint64_t limit = problem.input->group_limit_bytes;
  if (problem.ring_delay.seconds == 0 && problem.tree_delay == 0) return {{0, limit}};
  std::vector<Trial> trials;
  const auto short_limit = static_cast<uint64_t>(problem.ring_delay.short_bytes);
  for (const double share : {0.0, 0.5, 1.0}) {
    trials.push_back({share, limit});
    if (short_limit > 0 && (limit == 0 || limit > short_limit))
      trials.push_back({share, short_limit});
  }
  return trials;
}

// Durations of all runs of a lane that end at `last`, and when they may start.
struct RunCosts {
  std::vector<double> seconds;
  std::vector<double> ready;
};

RunCosts RingRuns(const Problem& problem, const Trial& trial, const std::vector<uint32_t>& tensors,
                  size_t last) {
  RunCosts runs{std::vector<double>(last + 1, kNever), std::vector<double>(last + 1)};
  const double limit = static_cast<double>(trial.ring_limit);
  const double dearer = trial.share * problem.ring_delay.seconds / kRingsAtOnce;
  double bytes = 0;
  for (size_t i = last + 1; i-- > 0;) {
    bytes += DenseBytes(problem.input->tensors, {tensors[i]});
    runs.ready[i] = problem.ready[tensors[last]];
    if (limit == 0 || bytes <= limit || i == last) {
      runs.seconds[i] = problem.ring.Seconds(bytes) + dearer;
    }
  }
  return runs;
}

double DensityOf(const Problem& problem, const std::vector<uint32_t>& tensors, size_t first,
                 size_t last) {
  double density = 0;
  for (size_t i = first; i <= last; ++i) {
    density = std::max(density, problem.input->tensors[tensors[i]].density);
  }
  return density;
}

// The group's density is the largest of its tensors' lower bounds, so a run may have to be summed
// again when a denser tensor joins; with one bound for all it never is.
RunCosts TreeRuns(const Problem& problem, const Trial& trial, const std::vector<uint32_t>& tensors,
                  size_t last) {
  RunCosts runs{std::vector<double>(last + 1), std::vector<double>(last + 1)};
  const std::vector<TensorSpec>& table = problem.input->tensors;
  const double dearer = trial.share * problem.tree_delay / kTreesAtOnce;
  double density = 0;
  double ready = 0;
  uint64_t k = 0, elements = 0;
  for (size_t i = last + 1; i-- > 0;) {
    const TensorSpec& tensor = table[tensors[i]];
    elements += std::min(tensor.elements, kMaxGroupElements);  // no sum of these wraps
    if (tensor.density > density) {
      density = tensor.density;
      k = 0;
      for (size_t j = i; j <= last; ++j) k += EntriesOf(density, table[tensors[j]].elements);
    } else {
      k += EntriesOf(density, tensor.elements);
    }
    ready = std::max(ready, problem.ready[tensors[i]] + SelectionSeconds(problem, tensors[i]));
    runs.ready[i] = ready;
    runs.seconds[i] = elements > kMaxGroupElements ? kNever : TreeGroupSeconds(problem, k) + dearer;
  }
  return runs;
}

bool Sooner(const Cell& a, const Cell& b) {
  return a.end < b.end || (a.end == b.end && a.groups < b.groups);
}

// The best last run out of `runs`, which end where the lane's first `count` tensors do; before(f):
// the cell with f of them. A longer run takes no less time, so the search ends where even a free
// NIC would end later than the best so far.
template <class Before>
Cell BestRun(const RunCosts& runs, size_t count, Before before, double* work) {
  Cell best;
  size_t from = 0;
  for (size_t f = count; f-- > 0;) {
    if (runs.ready[f] + runs.seconds[f] > best.end) break;
    ++*work;
    const Cell& cell = before(f);
    const Cell here{std::max(cell.end, runs.ready[f]) + runs.seconds[f], cell.groups + 1, 0, 0};
    if (Sooner(best, here)) continue;
    best = here;
    from = f;
  }
  best.from_ring = best.from_tree = static_cast<uint32_t>(from);  // the caller sets the other
  return best;
}

// The cells of all prefixes; nothing when there are too many, or with them `work` would pass
// kMostWork.
std::optional<std::vector<std::vector<Cell>>> Solve(const Problem& problem, const Trial& trial,
                                                    const Split& split, double* work) {
  const size_t rings = split.ring.size();
  const size_t trees = split.tree.size();
  const auto size = [](size_t count) { return static_cast<double>(count + 1); };
  if (size(rings) * size(trees) + size(trees) * size(trees) / 2 > kMostCells) return std::nullopt;
  std::vector<RunCosts> tree_runs;
  for (size_t j = 0; j < trees; ++j) tree_runs.push_back(TreeRuns(problem, trial, split.tree, j));
  *work += (size(trees) * size(trees) + size(rings) * size(rings)) / 2;
  std::vector<std::vector<Cell>> cells(rings + 1, std::vector<Cell>(trees + 1));
  cells[0][0].end = 0;
  for (size_t i = 0; i <= rings; ++i) {
    const RunCosts ring = i > 0 ? RingRuns(problem, trial, split.ring, i - 1) : RunCosts();
    for (size_t j = 0; j <= trees; ++j) {
      if (i + j == 0) continue;
      Cell last_ring, last_tree;
      if (i > 0) {
        const auto before = [&](size_t f) -> const Cell& { return cells[f][j]; };
        last_ring = BestRun(ring, i, before, work);
        last_ring.from_tree = static_cast<uint32_t>(j);
      }
      if (j > 0) {
        const auto before = [&](size_t f) -> const Cell& { return cells[i][f]; };
        last_tree = BestRun(tree_runs[j - 1], j, before, work);
        last_tree.from_ring = static_cast<uint32_t>(i);
      }
      cells[i][j] = i == 0 || Sooner(last_tree, last_ring) ? last_tree : last_ring;
    }
    if (*work > kMostWork) return std::nullopt;
  }
  return cells;
}

// The groups in order on one NIC.
double PlayOnNic(const Problem& problem, Candidate* candidate) {
  Nic nic(problem);
  for (size_t g = 0; g < candidate->groups.size(); ++g) {
    nic.Send(candidate->ready[g], &candidate->groups[g]);
  }
  return nic.end();
}

Candidate Backtrack(const Problem& problem, Split split,
                    const std::vector<std::vector<Cell>>& cells) {
  Candidate candidate;
  size_t i = split.ring.size();
  size_t j = split.tree.size();
  while (i > 0 || j > 0) {
    const Cell& cell = cells[i][j];
    const bool ring = cell.from_ring < i;
    const std::vector<uint32_t>& lane = ring ? split.ring : split.tree;
    const size_t first = ring ? cell.from_ring : cell.from_tree;
    const size_t end = ring ? i : j;
    std::vector<uint32_t> tensors(lane.begin() + static_cast<ptrdiff_t>(first),
                                  lane.begin() + static_cast<ptrdiff_t>(end));
    double ready = 0;
    for (const uint32_t t : tensors) {
      ready = std::max(ready, problem.ready[t] + (ring ? 0 : SelectionSeconds(problem, t)));
    }
    if (ring) {
      Group group;
      group.codec = BestRingCodec(problem, RingBytes(problem, tensors)).name;
      group.route = "ring";
      group.tensors = std::move(tensors);
      candidate.groups.push_back(std::move(group));
    } else {
      candidate.groups.push_back(
          TreeGroup(problem, tensors, DensityOf(problem, lane, first, end - 1)));
    }
    candidate.ready.push_back(ready);
    i = cell.from_ring;
    j = cell.from_tree;
  }
  std::reverse(candidate.groups.begin(), candidate.groups.end());
  std::reverse(candidate.ready.begin(), candidate.ready.end());
  candidate.end = PlayOnNic(problem, &candidate);
  return candidate;
}

// 0..count-1, the ends first, then always what is farthest from those before: when the work runs
// out, the thresholds that were looked at are spread over all.
std::vector<size_t> Spread(size_t count) {
  std::vector<size_t> order = {count - 1};
  if (count > 1) order.push_back(0);
  std::vector<bool> taken(count, false);
  taken[0] = taken[count - 1] = true;
  for (size_t step = std::bit_ceil(count) / 2; step > 0; step /= 2) {
    for (size_t i = step; i < count; i += step) {
      if (!taken[i]) order.push_back(i);
      taken[i] = true;
    }
  }
  return order;
}

void Keep(Candidate candidate, std::optional<Candidate>* best) {
  if (!*best || candidate.end < (*best)->end) *best = std::move(candidate);
}

}  // namespace

std::vector<Candidate> Candidates(const Problem& problem) {
  const std::vector<uint64_t> thresholds = Thresholds(problem);
  std::vector<std::optional<Candidate>> found(thresholds.size());
  double work = 0;
  for (const Trial& trial : Trials(problem)) {
    for (const size_t i : Spread(thresholds.size())) {
      Split split = SplitAt(problem, thresholds[i]);
      const auto cells = Solve(problem, trial, split, &work);
      if (cells) Keep(Backtrack(problem, std::move(split), *cells), &found[i]);
      if (work > kMostWork) break;
    }
    if (work > kMostWork) break;
  }
  std::vector<Candidate> candidates;
  for (auto& candidate : found) {
    if (candidate) candidates.push_back(*std::move(candidate));
  }
  return candidates;
}

}  // namespace ringwood
