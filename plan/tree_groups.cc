// Sparse tensors whose routes are given, merged into groups.
#include <algorithm>

#include "absl/strings/str_format.h"
#include "base/units.h"
#include "plan/problem.h"
#include "sparse/entries.h"

namespace ringwood {
namespace {

std::string ReasonOf(const Problem& problem, const Group& group, double ring_bytes) {
  const std::string seconds = FormatSeconds(group.end_seconds - group.start_seconds);
  if (group.tensors.size() > 1) {
    return absl::StrFormat("sparse: %d tensors up the tree in %s, one start-up of %s",
                           group.tensors.size(), seconds, FormatSeconds(problem.tree.Startup()));
  }
  if (problem.input->tensors[group.tensors[0]].route == "sparse") return "sparse: the user's word";
  return absl::StrFormat("sparse: %s up the tree against %s more on the ring", seconds,
                         FormatSeconds(problem.ring.Seconds(ring_bytes) - problem.ring.Startup()));
}

// Also where the density changes: a group has one.
std::vector<size_t> CutAtDensities(const Problem& problem, const std::vector<uint32_t>& tensors,
                                   const std::vector<size_t>& lasts) {
  const auto density = [&](size_t i) { return problem.input->tensors[tensors[i]].density; };
  std::vector<size_t> cut;
  size_t first = 0;
  for (const size_t last : lasts) {
    for (size_t i = first; i < last; ++i) {
      if (density(i) != density(i + 1)) cut.push_back(i);
    }
    cut.push_back(last);
    first = last + 1;
  }
  return cut;
}

}  // namespace

std::vector<size_t> CapElements(const Problem& problem, const std::vector<uint32_t>& tensors,
                                const std::vector<size_t>& lasts) {
  std::vector<size_t> capped;
  size_t first = 0;
  for (const size_t last : lasts) {
    uint64_t elements = 0;
    for (size_t i = first; i <= last; ++i) {
      const uint64_t more = problem.input->tensors[tensors[i]].elements;
      if (elements > 0 && elements + more > kMaxGroupElements) {
        capped.push_back(i - 1);
        elements = 0;
      }
      elements += more;
    }
    capped.push_back(last);
    first = last + 1;
  }
  return capped;
}

std::vector<Group> TreeGroups(const Problem& problem, const std::vector<uint32_t>& tensors) {
  const std::vector<TensorSpec>& table = problem.input->tensors;
  LaneInput lane;
  lane.cost = problem.tree;
  double selected = 0;
  for (const uint32_t t : tensors) {
    selected = std::max(selected, problem.ready[t] + SelectionSeconds(problem, t));
    lane.ready_seconds.push_back(selected);
    lane.bytes.push_back(
        static_cast<uint64_t>(problem.input->entry_bytes *
                              static_cast<double>(EntriesOf(table[t].density, table[t].elements))));
  }
  std::vector<Group> groups;
  size_t first = 0;
  double free = 0;
  const std::vector<size_t> exact = CutAtDensities(problem, tensors, Exact(lane));
  for (const size_t last : CapElements(problem, tensors, exact)) {
    const auto begin = tensors.begin() + static_cast<ptrdiff_t>(first);
    double bytes = 0;
    for (size_t i = first; i <= last; ++i)
      bytes += 4 * static_cast<double>(table[tensors[i]].elements);
    Group group = TreeGroup(problem, {begin, tensors.begin() + static_cast<ptrdiff_t>(last) + 1},
                            table[tensors[first]].density);
    group.start_seconds = std::max(free, lane.ready_seconds[last]);
    group.end_seconds = group.start_seconds + TreeGroupSeconds(problem, group.k);
    group.reason = ReasonOf(problem, group, bytes);
    free = group.end_seconds;
    groups.push_back(std::move(group));
    first = last + 1;
  }
  return groups;
}

}  // namespace ringwood
