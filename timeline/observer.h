// The events of a session as they happen: for timelines, flight records and the profile for
// re-planning.
//
// Threads: as named at each event; events of one round and group come in the order of this file,
// events of different groups may overlap. Rules for implementations: thread-safe, microseconds at
// most, never block, never call the session (locks of it may be held). `at` is Now() of the moment,
// taken once for all observers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "plan/plan.h"

namespace ringwood {

// The session that the events belong to; reported once, before any other event.
struct ObservedSession {
  uint64_t job = 0;
  uint64_t epoch = 0;
  int rank = 0;
  int world = 1;
  int servers = 0;
  std::string host;
};

class Observer {
 public:
  virtual ~Observer() = default;

  // Trainer's thread.
  virtual void Opened(const ObservedSession&) {}

  // Trainer's thread. From `from_round` on, `tensor` below is an index of `table`, which is in plan
  // order, and `group` one of the plan's groups.
  virtual void PlanAdopted(const Plan& plan, const std::vector<TensorSpec>& table,
                           uint64_t from_round) {}

  // Trainer's thread: the round before is over.
  virtual void RoundBegun(uint64_t round, TimePoint at) {}

  // Any thread.
  virtual void GradientReady(uint64_t round, uint32_t tensor, TimePoint at) {}

  // Compute loop: packing a dense group, selection of a sparse one. Where a device selects,
  // SelectionBegun comes again before Selected: `at` is when it had the gradients, not when it was
  // asked.
  virtual void SelectionBegun(uint64_t round, uint32_t group, TimePoint at) {}
  virtual void Selected(uint64_t round, uint32_t group, TimePoint at) {}

  // Net loop: the group has its lane ("ring" or "tree", its route) from start to end.
  virtual void GroupStarted(uint64_t round, uint32_t group, TimePoint at) {}
  virtual void GroupEnded(uint64_t round, uint32_t group, uint64_t sent_bytes, TimePoint at) {}

  // Trainer's thread: it waits for the groups, votes, waits for the commit, applies.
  virtual void WaitBegun(uint64_t round, TimePoint at) {}
  virtual void Voted(uint64_t round, uint64_t digest, TimePoint at) {}
  virtual void Committed(uint64_t round, bool skipped, TimePoint at) {}
  virtual void Applied(uint64_t round, TimePoint at) {}

  // Any thread. The epoch is over on this rank; no event of a later round follows.
  virtual void Failed(const std::string& reason, TimePoint at) {}
};

}  // namespace ringwood
