#include <numeric>

#include "absl/strings/str_cat.h"
#include "base/units.h"
#include "plan/problem.h"
#include "plan/select_lane.h"

namespace ringwood {

Plan PlanOmgs(const Problem& problem, bool exact) {
  const PlanInput& input = *problem.input;
  SelectLane lane;
  lane.backward_seconds = BackwardSeconds(problem);
  lane.cost = problem.tree;
  lane.selection = input.selection;
  // One density a group: the largest of the user's lower bounds, so one for all keeps costs
  // additive.
  double density = 0;
  for (const TensorSpec& tensor : input.tensors) density = std::max(density, tensor.density);
  for (const TensorSpec& tensor : input.tensors) {
    lane.elements.push_back(static_cast<double>(tensor.elements));
    lane.wire_bytes.push_back(input.entry_bytes *
                              static_cast<double>(EntriesOf(density, tensor.elements)));
  }
  std::vector<Group> groups;
  for (const Run& run : Play(lane, exact ? OmgsExact(lane) : Omgs(lane))) {
    std::vector<uint32_t> tensors(run.last - run.first + 1);
    std::iota(tensors.begin(), tensors.end(), static_cast<uint32_t>(run.first));
    Group group = TreeGroup(problem, std::move(tensors), density);
    group.start_seconds = run.start_seconds;
    group.end_seconds = run.end_seconds;
    double elements = 0;
    for (size_t j = run.first; j <= run.last; ++j) elements += lane.elements[j];
    group.reason = absl::StrCat(
        run.first == run.last ? "alone" : absl::StrCat("merged ", run.last - run.first + 1),
        ": its selection delays backward by ", FormatSeconds(lane.selection.Seconds(elements)),
        ", a start-up is ", FormatSeconds(lane.cost.Startup()));
    groups.push_back(std::move(group));
  }
  return Finish(exact ? "omgs-exact" : "omgs", problem, std::move(groups));
}

}  // namespace ringwood
