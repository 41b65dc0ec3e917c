// A rank's measurements of its last rounds: when gradients were ready, how long groups took.
// Medians over a short window, so that one slow round has no effect and a change of the network
// shows soon.
#pragma once

#include <deque>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "timeline/observer.h"

namespace ringwood {

struct Measured {
  // Of each tensor, from the begin of its round, which is the end of the one before: forward and
  // the trainer's other time are included.
  std::vector<double> ready_seconds;
  std::vector<double> pack_seconds;  // of each group: packing, or selection
  // Of each group from start to end, without the network's delay, in which the lane is free; time
  // during which q groups ran counts 1/q for each, because they share one NIC.
  std::vector<double> group_seconds;
  double tail_seconds = 0;   // from the end of the last group to applied
  double round_seconds = 0;  // from begin to applied
};

// The measurements of all ranks are the entry-wise maximum of these over the ranks: the latest
// ready times, the longest tail, and the shortest exchanges, because a rank that comes late to one
// does not wait in it.
std::vector<double> ToMaxima(const Measured& measured);
// The inverse; `maxima` is of the same plan.
Measured FromMaxima(const std::vector<double>& maxima, size_t tensors, size_t groups);

class Profile : public Observer {
 public:
  static constexpr size_t kWindow = 5;  // rounds

  void PlanAdopted(const Plan& plan, const std::vector<TensorSpec>& table,
                   uint64_t from_round) override;
  void RoundBegun(uint64_t round, TimePoint at) override;
  void GradientReady(uint64_t round, uint32_t tensor, TimePoint at) override;
  void SelectionBegun(uint64_t round, uint32_t group, TimePoint at) override;
  void Selected(uint64_t round, uint32_t group, TimePoint at) override;
  void GroupStarted(uint64_t round, uint32_t group, TimePoint at) override;
  void GroupEnded(uint64_t round, uint32_t group, uint64_t sent_bytes, TimePoint at) override;
  void Applied(uint64_t round, TimePoint at) override;

  // The network's delay for each group of the plan that was adopted last; 0 until this is called.
  // Counts for rounds that end from here on.
  void TakeDelays(std::vector<double> seconds);

  size_t rounds() const;     // in the window
  Measured Medians() const;  // rounds() > 0

 private:
  struct Round {
    TimePoint begun;
    std::vector<TimePoint> ready;                            // by tensor
    std::vector<TimePoint> packing, packed, started, ended;  // by group
  };

  mutable absl::Mutex mutex_;
  Round now_ ABSL_GUARDED_BY(mutex_);
  std::vector<double> delays_ ABSL_GUARDED_BY(mutex_);  // by group
  bool warm_ ABSL_GUARDED_BY(mutex_) = false;           // the first round of a plan is not counted
  std::deque<Measured> window_ ABSL_GUARDED_BY(mutex_);
};

// Seconds of each interval, where `q` intervals at once count 1/q each. Pure.
std::vector<double> SharedSeconds(const std::vector<TimePoint>& started,
                                  const std::vector<TimePoint>& ended);

}  // namespace ringwood
