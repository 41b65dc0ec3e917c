// Readers that are no members and wait for a checkpoint of what commits next: each is answered with
// the step after which all ranks save. As long as one waits, commits say so; when a checkpoint
// costs the training little is rank 0's to know (SaveClock), so that readers, however many and
// often they ask, slow nothing down beyond that. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "server/coordinator/outbox.h"

namespace ringwood {

class Pulls {
 public:
  static constexpr size_t kMaxWaiting = 256;
  static constexpr double kMaxSeconds = 3600;  // a reader that names a longer time waits this long

  // Exhausted at once where too many wait. `round`: the last that is committed.
  void Add(const event::Pull& pull, uint64_t round, TimePoint now, Outbox* out);
  bool wanted() const { return !waiting_.empty(); }

  // `round` of this epoch was committed: where it is one to save after, all who wait are answered.
  void Committed(const v1::EpochRecord& epoch, const v1::Commit& commit, Outbox* out);

  // True: it waited here, and is answered.
  bool CallGone(CallId call, Outbox* out);
  // Ends the waits that have lasted as long as they may. `state`: what the job does at present.
  void Tick(uint64_t round, const std::string& state, TimePoint now, Outbox* out);
  void End(const Status& why, Outbox* out);  // all of them

 private:
  struct Waiting {
    uint64_t job;  // 0: any
    uint64_t since_round;
    double seconds;
    TimePoint deadline;
  };

  std::map<CallId, Waiting> waiting_;
};

// What a reader is told that wants `wanted` where `job` runs.
Status CheckPulledJob(uint64_t wanted, uint64_t job);

}  // namespace ringwood
