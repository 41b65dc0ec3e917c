// Decides what to do when a process of the job is ready, ends or hangs, or the user presses Ctrl-C.
// Pure: events and the time come in, actions come out; run.cc carries them out.
//
//   servers ──► reducers ──► ranks ──► (grace) ──► stopping ──► killing ──► server stop ──► done
//
// One failure ends the attempt. Ranks that are stopped (SIGSTOP) are then killed at once. The
// others get the failure timeout and a little more to stop by themselves, with the coordinator's
// error in their output; then SIGTERM, then SIGKILL. The servers end last, so that the ranks' last
// messages reach them.
//
// What the end of a process means:
//   restart        a signal, also as a shell's 128 + signal; 75; of a server anything but 78
//   configuration  78; 126 and 127, by which a shell says that it could not start a command
//   its own        any other code: the program failed, and would most likely fail again
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "launch/process.h"

namespace ringwood {

// Exit codes of `ringwood run` (sysexits.h: EX_TEMPFAIL, EX_CONFIG; and the shell's for SIGINT).
inline constexpr int kExitOk = 0;
inline constexpr int kExitRestart = 75;
inline constexpr int kExitConfiguration = 78;
inline constexpr int kExitInterrupted = 130;

// 78 for what no restart can fix (bad input, wrong state, security), else 75.
int ExitCodeOf(const Status& status);

struct SupervisorOptions {
  int servers = 1;  // 0: ranks only
  int ranks = 1;
  double failure_timeout_seconds = 5;
  double join_timeout_seconds = 120;
  bool restart_on_failure = false;  // also if a rank exited with a code of its own
};

// Members are numbered: servers first, then ranks.
enum class Action {
  kStartServer,    // member 0, which coordinates
  kStartReducers,  // members 1..servers-1
  kStartRanks,
  kEndStoppedRanks,  // SIGKILL to those that are stopped, which no other signal ends
  kStopRanks,        // SIGTERM
  kKillRanks,        // SIGKILL
  kStopServers,
  kKillServers,
  kAbandon,  // a process survives SIGKILL or cannot be reached: cut the connection
};

// How the attempt ended.
struct Verdict {
  int exit_code = kExitOk;
  bool restart_helps = false;
  bool unreachable = false;  // hosts, ports or a store were not available: pause before a restart
  int culprit = -1;          // the member that failed first; -1: none, or none in particular
  std::string reason;        // "exited with code 1"; with a culprit it follows that name
  std::string told;          // the coordinator's message; empty: none
  int first = -1;            // the first member that failed by itself, if it is not the culprit
  std::string first_reason;
};

class Supervisor {
 public:
  enum class Meaning { kRestart, kConfiguration, kOwn };  // of an end, as above

  explicit Supervisor(const SupervisorOptions& options);

  std::vector<Action> Begin(TimePoint now);
  std::vector<Action> Ready(int member, TimePoint now);  // a server listens
  std::vector<Action> Ended(int member, const Ending& ending, TimePoint now);
  // A failure that is not the end of one member: an unreachable host, a command not found.
  std::vector<Action> Broke(const Status& status, TimePoint now);
  // The coordinator's verdict on an epoch; the first counts. `member` -1: it names nobody.
  void Told(int member, const std::string& sentence);
  std::vector<Action> Interrupt(TimePoint now);
  std::vector<Action> Tick(TimePoint now);  // call when deadline() has come

  TimePoint deadline() const { return deadline_; }  // TimePoint::max(): none
  bool done() const { return phase_ == Phase::kDone; }
  Verdict Judge() const;  // once done

 private:
  enum class Phase {
    kServer,
    kReducers,
    kRanks,
    kGrace,
    kStopping,
    kKilling,
    kServerStop,
    kServerKill,
    kDone
  };
  enum class State { kAbsent, kAlive, kReady, kEnded };
  struct Failure {
    int member;
    Ending ending;
  };

  std::vector<Action> Enter(Phase phase, TimePoint now);
  std::vector<Action> Advance(TimePoint now);  // moves on from phases whose work is done
  std::vector<Action> Fail(TimePoint now);
  void Start(int first, int end);
  bool Any(int first, int end, State state) const;
  bool RanksGone() const;
  bool ServersGone() const;
  const Failure* Culprit() const;
  const Failure* Blamed() const;
  const Failure* FirstOwn() const;
  void PutBlame(Meaning meaning, Verdict* verdict) const;

  const SupervisorOptions options_;
  Phase phase_ = Phase::kServer;
  TimePoint deadline_ = TimePoint::max();
  std::vector<State> members_;
  std::vector<Failure> failures_;  // in order, before the first signal of ours (and stopped ones)
  std::vector<Ending> endings_;    // by member; meaningful where it ended
  Status broken_;                  // the first
  bool broken_first_ = false;      // before any member's failure: those are consequences of it
  std::string told_;               // by the coordinator, when its epoch ended
  int blamed_ = -1;                // the member that it named
  bool started_ = true;            // no server failed before the ranks were started
  int interrupts_ = 0;
};

// "was killed by signal 9 (SIGKILL)" | "exited with code 1" | …
std::string Describe(const Ending& ending);

}  // namespace ringwood
