// The plan of a job that was not measured yet, and of tables too long for the exact hybrid: routes
// by a threshold on size, dense tensors merged into few groups that end as early as any, small
// sparse ones by the exact plan of their lane.
#include "plan/strategy/problem.h"
#include "sparse/entries.h"

namespace ringwood {
namespace {

// Ready times are guesses here, so plans whose ends differ by less than this share are equal.
constexpr double kSlack = 1e-3;

// Compares a tensor's own sparse message with its share of a merged dense one. Merged tensors share
// their start-up, so there only the tensor's bytes count.
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
  if (tensor.elements > kMaxGroupElements) return false;
  return TreeWins(problem, tensor);
}

}  // namespace

Plan PlanFirst(const Problem& problem) {
  std::vector<uint32_t> dense;
  std::vector<uint32_t> sparse;
  for (uint32_t t = 0; t < problem.input->tensors.size(); ++t) {
    (IsSparse(problem, problem.input->tensors[t]) ? sparse : dense).push_back(t);
  }
  const LaneInput lane = RingLane(problem, dense);
  Grouping grouping = Play(lane, Fewest(lane, kSlack));
  Explain(lane, grouping);
  std::vector<Group> groups = RingGroups(problem, dense, grouping);
  for (Group& group : TreeGroups(problem, sparse)) groups.push_back(std::move(group));
  return Finish("hybrid", problem, std::move(groups));
}

}  // namespace ringwood
