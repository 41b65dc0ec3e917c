// What the planner's model says a replayed step takes: the plan in force, priced with the profile's
// times, with what a ring was measured to cost on this very network a moment before, and with what
// warm-up steps showed of packing, selection, groups and applying. Pure.
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
