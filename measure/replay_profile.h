// Costs measured in a replay's warm-up steps: packing, selection, the groups on their lanes, and
// the tail after the last group.
#pragma once

#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "plan/model/model_profile.h"
#include "plan/plan.h"
#include "timeline/event_observer.h"

namespace ringwood {

// One warm-up step, seconds: of a rank, or of the job.
struct ReplayRound {
  double pack = 0;    // of all dense groups, one after the other
  double select = 0;  // of all sparse groups
  double tail = 0;    // from the last group's end until the averages are in place
  double ring = 0;    // time in which the route's lane had a group
  double tree = 0;
  bool operator==(const ReplayRound&) const = default;
};

// The whole rounds among the events, without the first where there are more: it allocates.
std::vector<ReplayRound> RoundsOf(const Plan& plan, const std::vector<TimelineEvent>& events);

// The job's costs are the entry-wise maximum of these over its ranks: a step waits for the rank
// that packs, selects, votes and applies longest. A lane's time is that of the rank which waits
// least in it for the others.
std::vector<double> ToMaxima(const std::vector<ReplayRound>& rounds);
// The inverse.
std::vector<ReplayRound> FromMaxima(const std::vector<double>& maxima);

struct ReplayCosts {                      // medians over the rounds
  double pack_seconds_per_element = 0;    // of dense groups
  double select_seconds_per_element = 0;  // of sparse groups
  // Time in which a route's lane had a group; 0: not seen.
  double ring_seconds = 0;
  double tree_seconds = 0;
  double tail_seconds = 0;
  bool operator==(const ReplayCosts&) const = default;
};

// `plan` is over the profile's tensors. Zeros without rounds.
ReplayCosts CostsOf(const Plan& plan, const ModelProfile& profile,
                    const std::vector<ReplayRound>& rounds);

class ReplayProfile : public TimelineObserver {
 public:
  static constexpr size_t kMaxEvents = 1 << 20;  // later ones are not needed

  void Take(const TimelineEvent& event) override {
    absl::MutexLock lock(&mutex_);
    if (events_.size() < kMaxEvents) events_.push_back(event);
  }
  std::vector<TimelineEvent> Events() {
    absl::MutexLock lock(&mutex_);
    return events_;
  }

 private:
  absl::Mutex mutex_;
  std::vector<TimelineEvent> events_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ringwood
