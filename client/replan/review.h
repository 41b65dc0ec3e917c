// Compares a plan with the measurements: what does it cost now, and is there a better one? Pure.
//
// The prediction is the planners' own: groups in plan order on one NIC, each after its gradients
// are ready (and selected), each as long as its cost says. The running plan and the new one are
// predicted alike, so that only the change shows.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "client/replan/profile.h"
#include "plan/model/fit.h"
#include "plan/strategy/planner.h"
#include "plan/warm_up.h"

namespace ringwood {

// Drift of a step below this is noise: the plan stays as it is.
constexpr double kDriftLimit = 0.10;
// A plan with a smaller predicted gain is not worth a change.
constexpr double kLeastGain = 0.03;
// Unless it sends this multiple of the entries in the same time, as LAGS plans do.
constexpr double kLeastMoreEntries = 1.10;
// "The same time" may be longer by this share.
constexpr double kSameTime = 0.01;

struct PlanQuestion {
  std::string planner;
  PlanInput input;            // of the first plan: in table order, nothing measured
  Plan plan;                  // that runs
  double promised = 0;        // predicted by an answer; 0: nothing was measured when it was made
  AffineFit ring;             // bytes of a dense group → s, as an idle network has just answered
  double delay = 0;           // of a hop of that network; not part of the groups' times
  int stage = kWarmUpStages;  // of the density warm-up: plans are compared as they are in it
};

struct PlanAnswer {
  std::optional<Plan> plan = {};  // a better one
  // Predicted seconds from a step's first gradient to its end, for the next question. The trainer's
  // time before that gradient is not part of it.
  double promised = 0;
  std::string reason;         // for the log: old and new prediction, and why
  int stage = kWarmUpStages;  // of the question
};

// Seconds of a step that are the trainer's own: from the end of the step before to the first
// gradient (forward, loading samples, whatever it does in between).
double OwnSeconds(const Measured& measured);

// Drift of a step from its prediction, with the trainer's own time as it is now: 0.2 = a fifth
// longer.
double Drift(double promised, const Measured& measured);

// `measured` is of all ranks, its ready_seconds by table, its groups by `question.plan`. An error
// if the measurements give no valid cost, or are of another plan.
StatusOr<PlanAnswer> Review(const PlanQuestion& question, const Measured& measured);

// Fits a cost to the (bytes, seconds) of groups: both parameters if the sizes are far enough apart,
// else `before` with another cost per byte.
AffineFit Refine(const AffineFit& before, const std::vector<std::pair<double, double>>& samples);

// Seconds of a step by `plan`, from the start of forward; `input` is in the plan's order.
double Predict(const PlanInput& input, const Plan& plan);

}  // namespace ringwood
