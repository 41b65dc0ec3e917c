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

struct Pending {
  std::vector<uint32_t> tensors;
  double selected = 0;  // when the last tensor's entries are known
};

uint64_t ElementsOf(const Problem& problem, const std::vector<uint32_t>& tensors) {
  uint64_t elements = 0;
  for (const uint32_t t : tensors) elements += problem.input->tensors[t].elements;
  return elements;
}

double Floor(const Problem& problem, const std::vector<uint32_t>& tensors) {
  double density = 1 / std::max(1.0, problem.input->lags_max_ratio);
  for (const uint32_t t : tensors) density = std::max(density, problem.input->tensors[t].density);
  return std::min(problem.input->max_density, density);
}

double FloorSeconds(const Problem& problem, const std::vector<uint32_t>& tensors) {
  return TreeGroupSeconds(problem,
                          EntriesOf(problem.input->tensors, tensors, Floor(problem, tensors)));
}

// MG-WFBP's rule at the lowest density: what cannot hide at all shares start-ups.
std::vector<Pending> Merge(const Problem& problem, const std::vector<uint32_t>& sparse) {
  std::vector<Pending> groups;
  double free = 0;  // when the groups that are closed have left the lane, at the lowest density
  for (const uint32_t t : sparse) {
    const double selected = problem.ready[t] + SelectionSeconds(problem, t);
    if (!groups.empty()) {
      Pending& last = groups.back();
      const double start = std::max(free, last.selected);
      if (problem.ready[t] - start < problem.tree.Startup()) {
        // A group that hides as it is stays as it is.
        if (start + FloorSeconds(problem, last.tensors) > problem.ready[t] &&
            ElementsOf(problem, last.tensors) + problem.input->tensors[t].elements <=
                kMaxGroupElements) {
          last.tensors.push_back(t);
          last.selected = std::max(last.selected, selected);
          continue;
        }
      }
      free = start + FloorSeconds(problem, last.tensors);
    }
    groups.push_back({{t}, selected});
  }
  return groups;
}

// The largest density at which a message that starts at `start` ends by `deadline`; the floor if
// none.
double Densest(const Problem& problem, const std::vector<uint32_t>& tensors, double start,
               double deadline) {
  const double elements = static_cast<double>(ElementsOf(problem, tensors));
  const auto ends = [&](double density) {
    return start + TreeGroupSeconds(problem, EntriesOf(problem.input->tensors, tensors, density));
  };
  double low = Floor(problem, tensors);
  if (ends(low) > deadline) return low;
  const double most = std::min(1.0, problem.input->max_density);
  if (ends(most) <= deadline) return most;
  // Whole entries of the group: x / elements, x from floor to most.
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
  for (size_t g = 0; g < merged.size(); ++g) {
    const double start = std::max(free, merged[g].selected);
    // Hidden: it ends before the next group could start, which is when that group's last gradient
    // is ready. The last group has nothing to hide behind.
    const bool last = g + 1 == merged.size();
    const double deadline = last ? 0 : problem.ready[merged[g + 1].tensors.back()];
    const double density = Densest(problem, merged[g].tensors, start, deadline);
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
    groups.push_back(std::move(group));
  }
  return Finish("lags", problem, std::move(groups));
}

}  // namespace ringwood
