// The plans of least time among which "hybrid" chooses: one for each threshold.
//
// The class within which the time is least: a tensor whose route is free is sparse iff it has at
// least as many elements as a threshold; groups are runs within their lane; the two lanes share one
// NIC and take turns in any order; densities at the user's lower bounds.
#pragma once

#include <vector>

#include "plan/strategy/problem.h"

namespace ringwood {

struct Candidate {
  std::vector<Group> groups;
  std::vector<double> ready;  // of each group
  double end = 0;
  double information = 0;
};

// In the order of the thresholds; none where the search would take too long.
std::vector<Candidate> Candidates(const Problem& problem);

}  // namespace ringwood
