// The plan of a job that was not measured yet, and of tables too long for the exact hybrid: routes
// by a threshold on size, dense tensors merged by the exact plan of their lane, each sparse tensor
// alone.
#include <algorithm>

#include "absl/strings/str_format.h"
#include "base/units.h"
#include "plan/problem.h"
namespace ringwood {
namespace {

// A tensor's own sparse message against its share of a merged dense one (start-ups of merged groups
// are shared, so bytes are what it costs there).
bool TreeWins(const Problem& problem, const TensorSpec& tensor) {
  const double bytes = 4 * static_cast<double>(tensor.elements);
  const double ring = problem.ring.Seconds(bytes) - problem.ring.Startup();
  const double tree = TreeGroupSeconds(problem, EntriesOf(tensor.density, tensor.elements)) +
                      problem.input->selection.Seconds(static_cast<double>(tensor.elements));
  return tree < ring;
}

bool IsSparse(const Problem& problem, const TensorSpec& tensor) {
  if (tensor.route != "auto") return tensor.route == "sparse";
  const PlanInput& input = *problem.input;
  if (input.world <= 1 || input.servers < 1 || tensor.density >= 1) return false;
  return TreeWins(problem, tensor);
}

std::vector<Group> TreeGroups(const Problem& problem, const std::vector<uint32_t>& tensors) {
  const PlanInput& input = *problem.input;
  std::vector<Group> groups;
  double free = 0;
  for (const uint32_t t : tensors) {
    const TensorSpec& tensor = input.tensors[t];
    Group group = TreeGroup(problem, {t}, tensor.density);
    const double selected = problem.ready[t] + SelectionSeconds(problem, t);
    group.start_seconds = std::max(free, selected);
    group.end_seconds = group.start_seconds + TreeGroupSeconds(problem, group.k);
    group.reason = absl::StrFormat(
        "sparse: %s up the tree against %s more on the ring",
        FormatSeconds(group.end_seconds - group.start_seconds),
        FormatSeconds(problem.ring.Seconds(4 * static_cast<double>(tensor.elements)) -
                      problem.ring.Startup()));
    if (tensor.route == "sparse") group.reason = "sparse: the user's word";
    free = group.end_seconds;
    groups.push_back(std::move(group));
  }
  return groups;
}

}  // namespace

Plan PlanFirst(const Problem& problem) {
  std::vector<uint32_t> dense;
  std::vector<uint32_t> sparse;
  for (uint32_t t = 0; t < problem.input->tensors.size(); ++t) {
    (IsSparse(problem, problem.input->tensors[t]) ? sparse : dense).push_back(t);
  }
  const LaneInput lane = RingLane(problem, dense);
  Grouping grouping = Play(lane, Exact(lane));
  Explain(lane, grouping);
  std::vector<Group> groups = RingGroups(problem, dense, grouping);
  for (Group& group : TreeGroups(problem, sparse)) groups.push_back(std::move(group));
  return Finish("hybrid", problem, std::move(groups));
}

}  // namespace ringwood
