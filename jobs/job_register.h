// The jobs of a deployment: which are open, which calls they may make, and which are to be closed.
// Pure: time and what became of openings and closings come in, decisions come out. Not thread-safe.
//
//              a call                opened                    idle, or room is needed
//   (unknown) ───────▶ opening ─────────────────▶ open ────────────────────────────▶ closing
//       ▲                 │ failed                                                      │
//       │                 ▼                                                             │
//       └──────────── broken (calls are refused with the reason for a while)            │
//       └───────────────────────────────────────────────────────────────────────────────┘ closed
//
// A call of a server, which follows jobs and begins none, opens no job and keeps none open.
//
// Who makes more calls than a job may is slowed: each call has its turn, in the order in which they
// come.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "jobs/job_limits.h"

namespace ringwood {

class JobRegister {
 public:
  static constexpr double kBrokenSeconds = 10;  // until an opening that failed is tried again

  enum class Phase { kOpening, kOpen, kClosing, kBroken };

  struct Options {
    size_t most_jobs = 16;      // open at once
    double idle_seconds = 600;  // without a call of a rank or an observer; then a job is closed
    JobLimits limits;           // of a job that has none of its own
    std::map<std::string, JobLimits> own_limits;
  };

  enum class Verdict {
    kGo,      // and the call is counted until Left
    kOpen,    // open the job, tell Opened, and ask again
    kWait,    // it is being opened or closed: ask again
    kRefuse,  // for the reason
  };
  struct Answer {
    Verdict verdict;
    Status why;  // of kWait and kRefuse
  };

  struct Facts {
    std::string name;
    Phase phase;
    uint64_t calls = 0, refused = 0, delayed = 0;  // since it was opened
    uint64_t open_calls = 0;
    double idle_seconds = 0;
    Status why;  // it is broken
  };

  explicit JobRegister(Options options) : options_(std::move(options)) {}

  // A call of this job comes: how long it has to wait, before Call. Exhausted: as many wait as may
  // be open.
  StatusOr<Duration> Turn(const std::string& job, TimePoint now);
  // Its turn has come.
  Answer Call(const std::string& job, bool of_server, TimePoint now);
  // A call that was let in has ended.
  void Left(const std::string& job, bool of_server, TimePoint now);

  // What became of kOpen. `held`: so long it is not idle, as its members are on their way.
  void Opened(const std::string& job, const Status& status, TimePoint now,
              Duration held = Duration::zero());
  // Jobs that are to be closed now; calls that come meanwhile wait. Tell Closed when no call is
  // left.
  std::vector<std::string> Close(TimePoint now);
  void Closed(const std::string& job);

  bool IsOpen(const std::string& job) const { return IsIn(job, Phase::kOpen); }
  bool IsOpening(const std::string& job) const { return IsIn(job, Phase::kOpening); }
  bool IsClosing(const std::string& job) const { return IsIn(job, Phase::kClosing); }
  uint64_t OpenCalls(const std::string& job) const;
  const JobLimits& LimitsOf(const std::string& job) const;
  std::vector<Facts> Describe(TimePoint now) const;  // by name

 private:
  struct Job {
    Phase phase = Phase::kOpening;
    TimePoint since;  // of the phase
    TimePoint held_until;
    TimePoint last_call;  // of a rank or an observer: when it came or ended
    uint64_t calls = 0, refused = 0, delayed = 0;
    uint64_t open_calls = 0;    // of all
    uint64_t waking_calls = 0;  // of them those of ranks and observers
    double allowance = 0;       // calls that may come at once; below 0: so many wait
    TimePoint allowance_at;
    Status why;
  };

  bool IsIn(const std::string& job, Phase phase) const;
  Answer Begin(const std::string& name, TimePoint now);
  Answer LetIn(const std::string& name, Job* job, bool of_server, TimePoint now);
  bool MakeRoom(TimePoint now);

  const Options options_;
  std::map<std::string, Job> jobs_;
};

// "opening", "open", "closing", "broken".
const char* PhaseName(JobRegister::Phase phase);

}  // namespace ringwood
