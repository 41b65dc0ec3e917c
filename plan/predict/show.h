// Plans as text, JSON, pictures and Chrome traces: pure functions from values to files' contents.
#pragma once

#include <string>
#include <vector>

#include "plan/plan.h"
#include "plan/predict/step_graph.h"
#include "plan/strategy/planner.h"

namespace ringwood {

// One planner's answer for one profile.
struct PlannedStep {
  Plan plan;
  double backward_seconds = 0;
  double end_seconds = 0;      // communication end, from the start of backward
  double exposed_seconds = 0;  // iteration - forward - backward
  double iteration_seconds = 0;
};

// Runs the planner and sums up. Errors are MakePlan's.
StatusOr<PlannedStep> PlanStep(const std::string& planner, const PlanInput& input);

// Doubles with 17 digits. Bytes are those on the wire of one worker's message: 4 an element on a
// ring, entry_bytes an entry up the tree.
std::string ToJson(const PlannedStep& step, const PlanInput& input);

// One line a planner; speed-ups over wfbp and single where these are among the steps.
std::string ToTable(const std::vector<PlannedStep>& steps);

// Gantt chart: backward above, one row a planner, time to the right; what is right of the dashed
// line is exposed.
std::string ToSvg(const std::vector<PlannedStep>& steps, const PlanInput& input,
                  const std::string& title);

// Trace Event Format: opens in chrome://tracing and Perfetto. Times from the start of forward.
std::string ToChromeTrace(const StepGraph& graph, const std::string& process);

}  // namespace ringwood
