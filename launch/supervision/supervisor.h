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
// In an elastic job the end of a process while the ranks train ends nothing: it is started again
// (elastic.h), until the coordinator gives the job up, does not stay itself, or no rank is left.
// Reducers are started together with the ranks there, since their hosts may be away as well.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "launch/supervision/elastic.h"
#include "launch/supervision/ending.h"
#include "launch/supervision/inquest.h"

namespace ringwood {

struct SupervisorOptions {
  int servers = 1;  // 0: ranks only
  int ranks = 1;    // spares included
  double failure_timeout_seconds = 5;
  double join_timeout_seconds = 120;
  bool restart_on_failure = false;  // also if a rank exited with a code of its own
  std::optional<ElasticOptions> elastic = std::nullopt;  // without: a fixed job
  double grace_seconds = 25;                   // that ranks have after a SIGTERM to the launcher
  std::vector<std::string> server_names = {};  // "server 1 (host h2)", for errors
};

// Members are numbered: servers first, then ranks.
enum class Action {
  kStartServer,    // member 0, which coordinates
  kStartReducers,  // members 1..servers-1
  kStartRanks,
  kStartAgain,       // those that TakeDue names
  kEndStuck,         // SIGKILL to those that TakeStuck names
  kEndStoppedRanks,  // SIGKILL to those that are stopped, which no other signal ends
  kStopRanks,        // SIGTERM
  kKillRanks,        // SIGKILL
  kStopServers,
  kKillServers,
  kAbandon,  // a process survives SIGKILL or cannot be reached: cut the connection
};

// The end of a process in an elastic job, and what follows.
struct Setback {
  int member = -1;
  std::string reason;  // "was killed by signal 9 (SIGKILL)"
  Revival revival;
};

class Supervisor {
 public:
  explicit Supervisor(const SupervisorOptions& options);

  std::vector<Action> Begin(TimePoint now);
  std::vector<Action> Ready(int member, TimePoint now);  // a server listens
  std::vector<Action> Ended(int member, const Ending& ending, TimePoint now);
  // A failure that is not the end of one member: an unreachable host, a command not found.
  std::vector<Action> Broke(const Status& status, TimePoint now);
  // Elastic: the host of this member cannot be reached; nothing runs there any more from `over` on.
  std::vector<Action> Lost(int member, TimePoint over, TimePoint now);
  // The coordinator's verdict on an epoch that ended the job; the first counts. `member` -1: it
  // names nobody. An elastic job's ranks are not started again after it.
  std::vector<Action> Told(int member, const std::string& sentence, TimePoint now);
  // The others have waited for these to join, for a while. Of a fixed job one that has ended well
  // ends the attempt, when this is said again.
  std::vector<Action> Awaited(const std::vector<int>& members, TimePoint now);
  // Elastic: the coordinator's newest epoch has these members and no other rank.
  void TookPart(const std::vector<int>& members);
  // A signal asks for the end. With `grace` the ranks have its seconds for a last checkpoint, and
  // the exit code is 75 where one says by 75 that it has one.
  std::vector<Action> Interrupt(TimePoint now, bool grace = false);
  std::vector<Action> Tick(TimePoint now);  // call when deadline() has come

  // Elastic: the coordinator goes on without this member.
  void Dropped(int member, TimePoint now);
  std::vector<int> TakeDue() { return std::exchange(due_, {}); }                // after kStartAgain
  std::vector<int> TakeStuck() { return std::exchange(stuck_, {}); }            // after kEndStuck
  std::vector<Setback> TakeSetbacks() { return std::exchange(setbacks_, {}); }  // to be told
  int restarts(int member) const { return elastic_ ? elastic_->restarts(member) : 0; }

  // Elastic, and the ranks run: the end of one is not the end.
  bool Trains() const { return elastic_ && phase_ == Phase::kRanks; }
  TimePoint deadline() const;  // TimePoint::max(): none
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

  std::vector<Action> Enter(Phase phase, TimePoint now);
  std::vector<Action> Advance(TimePoint now);  // moves on from phases whose work is done
  std::vector<Action> Fail(TimePoint now);
  std::vector<Action> EndedInTraining(int member, const Ending& ending, TimePoint now);
  std::vector<Action> Follow(TimePoint now);  // where an elastic job's course leads
  void Fell(int member, const Ending& ending, const std::string& reason, const Revival& revival);
  void Start(int first, int end);
  bool Any(int first, int end, State state) const;
  std::string NotReady() const;  // the servers that are waited for, by name
  bool RanksGone() const;
  bool ServersGone() const;

  const SupervisorOptions options_;
  Phase phase_ = Phase::kServer;
  TimePoint deadline_ = TimePoint::max();
  std::vector<State> members_;
  double stop_seconds_;  // between SIGTERM and SIGKILL
  Inquest inquest_;
  std::vector<int> gone_;  // of those that were awaited last, those that had ended
  bool started_ = true;    // no server failed before the ranks were started
  int interrupts_ = 0;
  bool grace_ = false;      // of the first
  bool continues_ = false;  // and a rank ended with 75
  std::optional<Elastic> elastic_;
  bool finished_ = false;  // elastic: those that took part are through
  std::vector<int> due_, stuck_;
  std::vector<Setback> setbacks_;
};

}  // namespace ringwood
