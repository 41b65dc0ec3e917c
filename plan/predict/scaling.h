// How a plan scales: one point a number of workers, planned by the model and played by the
// simulator.
#pragma once

#include <string>
#include <vector>

#include "plan/predict/simulate.h"
#include "plan/strategy/planner.h"

namespace ringwood {

struct ScalingPoint {
  int workers = 1;
  size_t groups = 0;
  double predicted_seconds = 0;  // iteration by the model
  double simulated_seconds = 0;  // iteration by the simulator
  double exposed_seconds = 0;    // simulated
  double efficiency = 0;         // computation alone / simulated iteration
  uint64_t messages = 0;
  uint64_t joined_chunks = 1;  // how many chunks of a job were played as one
};

// `input` without world. Speeds: of nodes, missing ones are 1. `most_messages` as in PlanScene.
StatusOr<ScalingPoint> ScaleTo(int workers, const std::string& planner, const PlanInput& input,
                               const std::vector<NodeSpeed>& speeds,
                               uint64_t most_messages = PlanScene().most_messages);

std::string ScalingTable(const std::vector<ScalingPoint>& points);
std::string ScalingCsv(const std::vector<ScalingPoint>& points);  // doubles with 17 digits
// Efficiency over the workers (a logarithmic axis).
std::string ScalingSvg(const std::vector<ScalingPoint>& points, const std::string& title);

}  // namespace ringwood
