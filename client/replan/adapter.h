// Rank 0's part in following reality: when to look, what to ask the coordinator for with the next
// vote. It says "look" every few rounds; every rank then brings what it measured; when a step has
// drifted from what was promised, the network is probed and a better plan is looked for on a loop
// of the adapter's, while training goes on.
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

  struct Request {  // of a vote
    bool review = false;
    bool probe = false;
    std::optional<Plan> plan;
    std::string reason;
  };

  // `question` of the first plan; its costs and its plan are filled in later.
  explicit Adapter(PlanQuestion question) : question_(std::move(question)) {}

  // All on the trainer's thread. With every vote; `rounds` that were measured by the present plan.
  Request Next(size_t rounds);
  // The first plan, each that Next asked for, and each of a new stage of the density warm-up, for
  // which nothing was promised yet.
  void Adopted(const Plan& plan, int stage);
  // The review that was asked for; `ring` where it was probed.
  void Reviewed(const Measured& measured, const std::optional<AffineFit>& ring);

 private:
  PlanQuestion question_;
  size_t unlooked_ = 0;  // rounds since the last review
  bool probe_ = true;    // what was promised does not hold: the next review finds out why

  absl::Mutex mutex_;
  bool planning_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<PlanAnswer> answer_ ABSL_GUARDED_BY(mutex_);
  Loop loop_{"rw-plan"};  // last: nothing runs on it when the rest goes
};

}  // namespace ringwood
