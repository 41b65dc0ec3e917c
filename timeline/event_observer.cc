#include "timeline/event_observer.h"

namespace ringwood {

int64_t NanosecondsOf(TimePoint at) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(at.time_since_epoch()).count();
}

void TimelineObserver::PlanAdopted(const Plan& plan, const std::vector<TensorSpec>& table,
                                   uint64_t from_round) {
  const uint32_t groups = static_cast<uint32_t>(plan.groups.size());
  Take({NanosecondsOf(Now()), from_round, Hash(plan), groups, TimelineKind::kPlanAdopted});
}
void TimelineObserver::RoundBegun(uint64_t round, TimePoint at) {
  Take({NanosecondsOf(at), round, 0, 0, TimelineKind::kRound});
}
void TimelineObserver::GradientReady(uint64_t round, uint32_t tensor, TimePoint at) {
  Take({NanosecondsOf(at), round, 0, tensor, TimelineKind::kReady});
}
void TimelineObserver::SelectionBegun(uint64_t round, uint32_t group, TimePoint at) {
  Take({NanosecondsOf(at), round, 0, group, TimelineKind::kSelect});
}
void TimelineObserver::Selected(uint64_t round, uint32_t group, TimePoint at) {
  Take({NanosecondsOf(at), round, 0, group, TimelineKind::kSelected});
}
void TimelineObserver::GroupStarted(uint64_t round, uint32_t group, TimePoint at) {
  Take({NanosecondsOf(at), round, 0, group, TimelineKind::kGroup});
}
void TimelineObserver::GroupEnded(uint64_t round, uint32_t group, uint64_t sent_bytes,
                                  TimePoint at) {
  Take({NanosecondsOf(at), round, sent_bytes, group, TimelineKind::kGroupEnded});
}
void TimelineObserver::WaitBegun(uint64_t round, TimePoint at) {
  Take({NanosecondsOf(at), round, 0, 0, TimelineKind::kWait});
}
void TimelineObserver::Voted(uint64_t round, uint64_t digest, TimePoint at) {
  Take({NanosecondsOf(at), round, digest, 0, TimelineKind::kVoted});
}
void TimelineObserver::Committed(uint64_t round, bool skipped, TimePoint at) {
  Take({NanosecondsOf(at), round, skipped, 0, TimelineKind::kCommitted});
}
void TimelineObserver::Applied(uint64_t round, TimePoint at) {
  Take({NanosecondsOf(at), round, 0, 0, TimelineKind::kApplied});
}
void TimelineObserver::Failed(const std::string& reason, TimePoint at) {
  Take({NanosecondsOf(at), 0, 0, 0, TimelineKind::kFailed});
}

}  // namespace ringwood
