// The DAG of one training step (Shi et al. 2018, "A DAG model of synchronous SGD"): read, copy,
// forward and backward by layer, selection, communication by group, update. The step takes as long
// as its longest path.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "plan/plan.h"
#include "plan/strategy/planner.h"

namespace ringwood {

struct StepNode {
  std::string name;    // "backward conv1.weight", "ring group 3"
  std::string stream;  // "input" | "compute" | "select" | a route
  double seconds = 0;
  std::vector<size_t> after;  // nodes that must have ended, each before this one in the list
  double start_seconds = 0;   // from the start of forward
  double end_seconds = 0;
  bool critical = false;
};

struct StepGraph {
  std::vector<StepNode> nodes;
  double iteration_seconds = 0;
  std::vector<std::string> critical_path;  // names, first to last
};

struct StepCosts {          // 0: not known, not shown
  double read_seconds = 0;  // read and copy of the next step's samples overlap this step
  double copy_seconds = 0;
  double update_seconds = 0;
};

// `plan` was made from `input` by MakePlan. With "dear" the step begins with backward, and the next
// forward is in it.
StatusOr<StepGraph> MakeStepGraph(const PlanInput& input, const Plan& plan, const StepCosts& costs);

// Fills in starts and ends, the longest path and its length.
void Evaluate(StepGraph* graph);

}  // namespace ringwood
