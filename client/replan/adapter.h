// Rank 0's part in re-planning: when to review the plan, and what to ask the coordinator for with
// the next vote. It asks for a review every few rounds, in which all ranks combine their
// measurements. When a step has drifted from its prediction, the network is probed and a better
// plan is computed on a loop of the adapter's, while training continues. A plan whose steps turn
// out longer than those of the one before is taken back: what was measured counts, whatever was
// predicted.
#pragma once

#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/loop.h"
#include "client/replan/review.h"

namespace ringwood {

class Adapter {
 public:
  static constexpr size_t kReviewEvery = 5;  // rounds
  // The shares of the time that reviews take at most, with a probe and without. Where delays are
  // long they would take most of it otherwise, or a tenth.
  static constexpr double kProbeShare = 0.05;
  static constexpr double kReviewShare = 0.01;

  struct Request {  // of a vote
    bool review = false;
    bool probe = false;
    std::optional<Plan> plan;
    std::string reason;
  };

  struct Probed {
    AffineFit ring;
    double seconds = 0;  // that the probe took
    double delay = 0;    // of a hop
  };

  // `question` is of the first plan; its costs and its plan are filled in later.
  explicit Adapter(PlanQuestion question) : question_(std::move(question)) {}

  // All on the trainer's thread. For every vote; `rounds` were measured with the present plan.
  Request Next(size_t rounds);
  // Called with the first plan, each that Next asked for, and each of a new stage of the density
  // warm-up, which has no prediction yet.
  void Adopted(const Plan& plan, int stage);
  // Starts the review that was asked for, which took the ranks so many seconds; `probed` is there
  // if it was asked for.
  void Reviewed(const Measured& measured, const std::optional<Probed>& probed, double seconds = 0);

 private:
  // A plan, and what a step by it took from the first gradient on.
  struct Ran {
    Plan plan;
    double seconds = 0;
  };
  Request Back();

  PlanQuestion question_;
  double seconds_ = 0;          // as of Ran, of the plan that runs, in the last review
  std::optional<Ran> before_;   // the plan before, until the present one was measured
  std::optional<Ran> go_back_;  // to be asked for: it took less
  size_t unlooked_ = 0;         // rounds since the last review
  size_t every_ = kReviewEvery;
  bool probe_ = true;  // the prediction does not hold: the next review probes the network
  double rest_ = 0;    // rounds in which it does not yet

  absl::Mutex mutex_;
  bool planning_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<PlanAnswer> answer_ ABSL_GUARDED_BY(mutex_);
  // Last: its thread ends before the rest is destroyed.
  Loop loop_{"rw-plan", Loop::Pace::kBackground};
};

}  // namespace ringwood
