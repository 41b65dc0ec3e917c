// Predicts the time of a replayed step by the planner's model: the plan in force, the profile's
// times, the cost of a ring measured on this network just before, and the costs of packing,
// selection, groups and applying in the warm-up steps. Pure.
#pragma once

#include "base/status.h"
#include "measure/replay_profile.h"
#include "plan/model/model_profile.h"
#include "plan/model/probe.h"
#include "plan/plan.h"

namespace ringwood {

struct PredictionInput {
  Plan plan;  // over the profile's tensors
  double density = 0.001;
  double forward_seconds = 0;  // scaled already
  double scale = 1;            // of the profile's times
  int world = 1;
  Hosts hosts;  // of the ranks
  int servers = 1;
  ProbeResult probe;  // all-reduces of fp32
  ReplayCosts costs;  // of warm-up steps
};

// Seconds of one step. The tree's cost follows from the ring's: both run over the same links.
StatusOr<double> PredictStep(const ModelProfile& profile, const PredictionInput& input);

}  // namespace ringwood
