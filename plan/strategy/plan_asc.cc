#include <numeric>

#include "plan/strategy/asc.h"
#include "plan/strategy/problem.h"

namespace ringwood {

Plan PlanAsc(const Problem& problem) {
  std::vector<uint32_t> tensors(problem.input->tensors.size());
  std::iota(tensors.begin(), tensors.end(), 0u);
  const LaneInput lane = RingLane(problem, tensors);
  const double penalty = problem.input->contention;
  Grouping grouping = PlayAsc(lane, penalty, Asc(lane, penalty));
  Explain(lane, grouping);
  for (size_t g = 1; g < grouping.size(); ++g) {
    if (grouping[g].start_seconds < grouping[g - 1].end_seconds) {
      grouping[g].reason += "; beside the group before, whose transfer hides this start-up";
    }
  }
  return Finish("asc", problem, RingGroups(problem, tensors, grouping));
}

}  // namespace ringwood
