// What a replay's warm-up steps show of its costs: packing, selection, the groups on their lanes,
// and what comes after the last of them.
#pragma once

#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "client/trace_observer.h"
#include "plan/plan.h"
#include "plan/trace.h"

namespace ringwood {

struct ReplayCosts {
  double pack_seconds_per_element = 0;    // of dense groups
  double select_seconds_per_element = 0;  // of sparse groups
  // All groups of a route, from start to end, one after the other; 0: not seen.
  double ring_seconds = 0;
  double tree_seconds = 0;
  double tail_seconds = 0;  // from the last group's end until the averages are in place
  bool operator==(const ReplayCosts&) const = default;
};

// Of the events of whole rounds; the first round is left out when there are more. `plan` is over
// the trace's tensors. Zeros when there is no whole round.
ReplayCosts CostsOf(const Plan& plan, const Trace& trace, const std::vector<TraceEvent>& events);

class ReplayProfile : public TraceObserver {
 public:
  static constexpr size_t kMaxEvents = 1 << 20;  // later ones are not needed

  void Take(const TraceEvent& event) override {
    absl::MutexLock lock(&mutex_);
    if (events_.size() < kMaxEvents) events_.push_back(event);
  }
  std::vector<TraceEvent> Events() {
    absl::MutexLock lock(&mutex_);
    return events_;
  }

 private:
  absl::Mutex mutex_;
  std::vector<TraceEvent> events_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ringwood
