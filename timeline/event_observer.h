// An observer that turns the events of a session into a stream of TimelineEvents.
#pragma once

#include "timeline/event.h"
#include "timeline/observer.h"

namespace ringwood {

class TimelineObserver : public Observer {
 public:
  // Any thread, many at once; microseconds, never blocks.
  virtual void Take(const TimelineEvent& event) = 0;

  void PlanAdopted(const Plan& plan, const std::vector<TensorSpec>& table,
                   uint64_t from_round) override;
  void RoundBegun(uint64_t round, TimePoint at) override;
  void GradientReady(uint64_t round, uint32_t tensor, TimePoint at) override;
  void SelectionBegun(uint64_t round, uint32_t group, TimePoint at) override;
  void Selected(uint64_t round, uint32_t group, TimePoint at) override;
  void GroupStarted(uint64_t round, uint32_t group, TimePoint at) override;
  void GroupEnded(uint64_t round, uint32_t group, uint64_t sent_bytes, TimePoint at) override;
  void WaitBegun(uint64_t round, TimePoint at) override;
  void Voted(uint64_t round, uint64_t digest, TimePoint at) override;
  void Committed(uint64_t round, bool skipped, TimePoint at) override;
  void Applied(uint64_t round, TimePoint at) override;
  void Failed(const std::string& reason, TimePoint at) override;
};

int64_t NanosecondsOf(TimePoint at);

}  // namespace ringwood
