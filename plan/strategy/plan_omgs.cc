// Sparse tensors merged as OMGS-SGD does; tensors that the user wants dense share the rings of the
// exact merging.
#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/units.h"
#include "plan/strategy/problem.h"
#include "plan/strategy/select_lane.h"
#include "sparse/entries.h"

namespace ringwood {
namespace {

struct Routes {
  std::vector<uint32_t> dense, sparse;
};

Routes RoutesOf(const PlanInput& input) {
  Routes routes;
  for (uint32_t t = 0; t < input.tensors.size(); ++t) {
    const TensorSpec& tensor = input.tensors[t];
    const bool ring = tensor.route == "dense" || tensor.elements > kMaxGroupElements;
    (ring ? routes.dense : routes.sparse).push_back(t);
  }
  return routes;
}

// Backward of dense tensors counts for the next sparse tensor.
SelectLane LaneOf(const Problem& problem, const std::vector<uint32_t>& sparse, double density) {
  const PlanInput& input = *problem.input;
  SelectLane lane;
  lane.cost = problem.tree;
  lane.selection = input.selection;
  lane.delay = problem.tree_delay;
  lane.window = kTreesAtOnce;
  double before = 0;
  for (const uint32_t t : sparse) {
    const uint64_t elements = input.tensors[t].elements;
    lane.backward_seconds.push_back(problem.ready[t] - before);
    lane.elements.push_back(static_cast<double>(elements));
    lane.wire_bytes.push_back(input.entry_bytes *
                              static_cast<double>(EntriesOf(density, elements)));
    before = problem.ready[t];
  }
  return lane;
}

}  // namespace

Plan PlanOmgs(const Problem& problem, bool exact) {
  const Routes routes = RoutesOf(*problem.input);
  const LaneInput ring = RingLane(problem, routes.dense);
  Grouping rings = Play(ring, Exact(ring));
  Explain(ring, rings);
  std::vector<Group> groups = RingGroups(problem, routes.dense, rings);
  // One density a group: the largest of the user's lower bounds, so one for all keeps costs
  // additive.
  double density = 0;
  for (const uint32_t t : routes.sparse) {
    density = std::max(density, problem.input->tensors[t].density);
  }
  const SelectLane lane = LaneOf(problem, routes.sparse, density);
  std::optional<std::vector<size_t>> lasts;
  if (exact) lasts = OmgsExact(lane);
  const bool too_many = exact && !lasts;
  if (!lasts) lasts = Omgs(lane);
  for (const Run& run : Play(lane, CapElements(problem, routes.sparse, *lasts))) {
    const auto begin = routes.sparse.begin();
    std::vector<uint32_t> tensors(begin + static_cast<ptrdiff_t>(run.first),
                                  begin + static_cast<ptrdiff_t>(run.last) + 1);
    Group group = TreeGroup(problem, std::move(tensors), density);
    group.start_seconds = run.start_seconds;
    group.end_seconds = run.end_seconds;
    double elements = 0;
    for (size_t j = run.first; j <= run.last; ++j) elements += lane.elements[j];
    group.reason = absl::StrCat(
        run.first == run.last ? "alone" : absl::StrCat("merged ", run.last - run.first + 1),
        ": its selection delays backward by ", FormatSeconds(lane.selection.Seconds(elements)),
        ", a start-up is ", FormatSeconds(lane.cost.Startup()),
        too_many ? ", by omgs's rule: too many tensors for an exact search" : "");
    groups.push_back(std::move(group));
  }
  return Finish(exact ? "omgs-exact" : "omgs", problem, std::move(groups));
}

}  // namespace ringwood
