// LAGS-SGD (Shi et al., ECAI 2020): each group as dense as hides behind the backward of the next
// one, and never sparser than the user's lower bound. Tensors that the user wants dense share the
// rings of the exact merging.
#include <algorithm>

#include "absl/strings/str_format.h"
#include "base/units.h"
#include "plan/strategy/problem.h"
#include "sparse/entries.h"

namespace ringwood {
namespace {

// Tensors that share a message, and their sums.
struct Pending {
  std::vector<uint32_t> tensors;
  double selected = 0;  // when the last tensor's entries are known
  double density = 0;   // the lowest that it may have
  uint64_t elements = 0, entries = 0;

  // A tensor of a higher density raises that of the whole group.
  void Add(const Problem& problem, uint32_t tensor) {
    const PlanInput& input = *problem.input;
    const TensorSpec& added = input.tensors[tensor];
    tensors.push_back(tensor);
    selected = std::max(selected, problem.ready[tensor] + SelectionSeconds(problem, tensor));
    elements += added.elements;
    const double least = std::max(1 / std::max(1.0, input.lags_max_ratio), added.density);
    const double before = density;
    density = std::max(density, std::min(input.max_density, least));
    entries = density == before ? entries + EntriesOf(density, added.elements)
                                : EntriesOf(input.tensors, tensors, density);
  }
  double LeastSeconds(const Problem& problem) const { return TreeGroupSeconds(problem, entries); }
};

// MG-WFBP's rule at the lowest density: only tensors that cannot be hidden at all share start-ups.
std::vector<Pending> Merge(const Problem& problem, const std::vector<uint32_t>& sparse) {
  std::vector<Pending> groups;
  double free = 0;  // when the groups that are closed have left the lane, at the lowest density
  for (const uint32_t t : sparse) {
    if (!groups.empty()) {
      Pending& last = groups.back();
      const double start = std::max(free, last.selected);
      const double end = start + last.LeastSeconds(problem);
      // A group that is hidden already takes in no further tensor.
      if (problem.ready[t] - start < problem.tree.Startup() && end > problem.ready[t] &&
          last.elements + problem.input->tensors[t].elements <= kMaxGroupElements) {
        last.Add(problem, t);
        continue;
      }
      free = end;
    }
    groups.emplace_back().Add(problem, t);
  }
  return groups;
}

// The largest density at which a message that starts at `start` ends by `deadline`; the lowest if
// none.
double Densest(const Problem& problem, const Pending& group, double start, double deadline) {
  const auto elements = static_cast<double>(group.elements);
  const auto ends = [&](double density) {
    return start +
           TreeGroupSeconds(problem, EntriesOf(problem.input->tensors, group.tensors, density));
  };
  const double low = group.density;
  if (start + group.LeastSeconds(problem) > deadline) return low;
  const double most = std::min(1.0, problem.input->max_density);
  if (ends(most) <= deadline) return most;
  // Whole entries of the group: x / elements, x from the lowest density to most.
  uint64_t hides = static_cast<uint64_t>(low * elements);
  uint64_t shows = static_cast<uint64_t>(most * elements) + 1;
  while (shows - hides > 1) {
    const uint64_t middle = hides + (shows - hides) / 2;
    (ends(static_cast<double>(middle) / elements) <= deadline ? hides : shows) = middle;
  }
  return std::max(low, static_cast<double>(hides) / elements);
}

}  // namespace

Plan PlanLags(const Problem& problem) {
  std::vector<uint32_t> dense, sparse;
  for (uint32_t t = 0; t < problem.ready.size(); ++t) {
    const TensorSpec& tensor = problem.input->tensors[t];
    const bool ring = tensor.route == "dense" || tensor.elements > kMaxGroupElements;
    (ring ? dense : sparse).push_back(t);
  }
  const LaneInput lane = RingLane(problem, dense);
  Grouping grouping = Play(lane, Exact(lane));
  Explain(lane, grouping);
  std::vector<Group> groups = RingGroups(problem, dense, grouping);
  const std::vector<Pending> merged = Merge(problem, sparse);
  double free = 0;
  OnTheWay on_the_way(kTreesAtOnce);
  for (size_t g = 0; g < merged.size(); ++g) {
    const double start = std::max({free, merged[g].selected, on_the_way.Room()});
    // Hidden: it ends before the next group could start, which is when that group's last gradient
    // is ready. The last group has nothing to hide behind.
    const bool last = g + 1 == merged.size();
    const double deadline = last ? 0 : problem.ready[merged[g + 1].tensors.back()];
    const double density = Densest(problem, merged[g], start, deadline);
    Group group = TreeGroup(problem, merged[g].tensors, density);
    group.start_seconds = start;
    group.end_seconds = start + TreeGroupSeconds(problem, group.k);
    const bool hides = group.end_seconds <= deadline;
    if (last) {
      group.reason = "last: nothing is left to hide behind, so the lowest density";
    } else if (hides) {
      group.reason = absl::StrFormat("hides: done %s before the next group's gradients",
                                     FormatSeconds(deadline - group.end_seconds));
    } else {
      group.reason = absl::StrFormat("shows by %s even at the lowest density",
                                     FormatSeconds(group.end_seconds - deadline));
    }
    free = group.end_seconds;
    group.end_seconds += problem.tree_delay;
    on_the_way.Add(group.end_seconds);
    groups.push_back(std::move(group));
  }
  return Finish("lags", problem, std::move(groups));
}

}  // namespace ringwood
