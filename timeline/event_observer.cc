#include "timeline/event_observer.h"

namespace ringwood {

int64_t NanosecondsOf(TimePoint at) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(at.time_since_epoch()).count();
}

void TraceObserver::PlanAdopted(const Plan& plan, const std::vector<TensorSpec>& table,
                                uint64_t from_round) {
  const uint32_t groups = static_cast<uint32_t>(plan.groups.size());
  Take({NanosecondsOf(Now()), from_round, Hash(plan), groups, TraceKind::kPlanAdopted});
}
void TraceObserver::RoundBegun(uint64_t round, TimePoint at) {
  Take({NanosecondsOf(at), round, 0, 0, TraceKind::kRound});
}
void TraceObserver::GradientReady(uint64_t round, uint32_t tensor, TimePoint at) {
  Take({NanosecondsOf(at), round, 0, tensor, TraceKind::kReady});
}
void TraceObserver::SelectionBegun(uint64_t round, uint32_t group, TimePoint at) {
  Take({NanosecondsOf(at), round, 0, group, TraceKind::kSelect});
}
void TraceObserver::Selected(uint64_t round, uint32_t group, TimePoint at) {
  Take({NanosecondsOf(at), round, 0, group, TraceKind::kSelected});
}
void TraceObserver::GroupStarted(uint64_t round, uint32_t group, TimePoint at) {
  Take({NanosecondsOf(at), round, 0, group, TraceKind::kGroup});
}
void TraceObserver::GroupEnded(uint64_t round, uint32_t group, uint64_t sent_bytes, TimePoint at) {
  Take({NanosecondsOf(at), round, sent_bytes, group, TraceKind::kGroupEnded});
}
void TraceObserver::WaitBegun(uint64_t round, TimePoint at) {
  Take({NanosecondsOf(at), round, 0, 0, TraceKind::kWait});
}
void TraceObserver::Voted(uint64_t round, uint64_t digest, TimePoint at) {
  Take({NanosecondsOf(at), round, digest, 0, TraceKind::kVoted});
}
void TraceObserver::Committed(uint64_t round, bool skipped, TimePoint at) {
  Take({NanosecondsOf(at), round, skipped, 0, TraceKind::kCommitted});
}
void TraceObserver::Applied(uint64_t round, TimePoint at) {
  Take({NanosecondsOf(at), round, 0, 0, TraceKind::kApplied});
}
void TraceObserver::Failed(const std::string& reason, TimePoint at) {
  Take({NanosecondsOf(at), 0, 0, 0, TraceKind::kFailed});
}

}  // namespace ringwood
