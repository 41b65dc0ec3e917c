// Holds a plan against what was measured: what does it cost now, and is there a better one? Pure.
//
// The prediction is the planners' own: groups in plan order on one card, each after its gradients
// are ready (and selected), each as long as its cost says. The running plan and the new one are
// predicted alike, so that only what changed shows.
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
// A plan that promises less gain than this is not worth a change.
constexpr double kLeastGain = 0.03;
// Unless it sends so many times the entries in the same time: what LAGS looks for.
constexpr double kLeastMoreEntries = 1.10;
// "The same time" is longer by this at most.
constexpr double kSameTime = 0.01;

struct PlanQuestion {
  std::string planner;
  PlanInput input;            // in table order, nothing measured: what the first plan was made from
  Plan plan;                  // that runs
  double promised = 0;        // as of an answer; 0: nothing was measured when it was made
  AffineFit ring;             // bytes of a dense group → s, as an idle network has just answered
  int stage = kWarmUpStages;  // of the density warm-up: plans are compared as they are in it
};

struct PlanAnswer {
  std::optional<Plan> plan = {};  // a better one
  // Seconds from a step's first gradient to its end, from here on: the next question's. What the
  // trainer does before that gradient is its own affair.
  double promised = 0;
  std::string reason;         // for the log: old and new prediction, and why
  int stage = kWarmUpStages;  // of the question
};

// Seconds of a step that are the trainer's own: from the end of the step before to the first
// gradient (forward, loading samples, whatever it does in between).
double OwnSeconds(const Measured& measured);

// How far a step is from what was promised, with the trainer's own time as it is now: 0.2 = a fifth
// longer.
double Drift(double promised, const Measured& measured);

// `measured` is of all ranks, its ready_seconds by table, its groups by `question.plan`.
StatusOr<PlanAnswer> Review(const PlanQuestion& question, const Measured& measured);

// A cost that explains what groups of these (bytes, seconds) took: both parameters where the sizes
// are far enough apart to tell them, else `before` with other bytes.
AffineFit Refine(const AffineFit& before, const std::vector<std::pair<double, double>>& samples);

// Seconds of a step by `plan`, from the start of forward; `input` is in the plan's order.
double Predict(const PlanInput& input, const Plan& plan);

}  // namespace ringwood
