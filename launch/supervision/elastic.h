// The ranks and servers of an elastic job while it trains: who takes part, who is started again,
// and when the whole is over. Pure: the supervisor asks it between the start of the ranks and the
// end.
//
// A rank takes part from its first start; a spare, and a process that was started in another one's
// place, once the coordinator's epoch has it. That matters at the end: when those that take part
// have finished, nobody waits for the others.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "launch/supervision/restarts.h"

namespace ringwood {

struct ElasticOptions {
  RestartOptions restarts;
  int min_ranks = 1;              // that can go on
  int spares = 0;                 // the last of the ranks
  double patience_seconds = 120;  // for a process that runs and that the others go on without
  bool restart_own = false;  // a program that failed by itself is restarted though nobody else runs
};

class Elastic {
 public:
  enum class Course {
    kGoesOn,
    kFinished,         // those that took part are through, or were killed: end the others
    kNobodyLeft,       // no rank runs or will run that could go on: end the others
    kCoordinatorLost,  // it does not stay
    kTooFew,           // to go on, and no more will come
    kCannotBegin,      // the first epoch has all ranks and servers, and one will not come
  };

  explicit Elastic(const ElasticOptions& options);

  void Begin(int first, int end, TimePoint now);  // members that are started for the first time
  void Finished(int member);                      // a rank ended with 0
  // Without a cause no restart helps.
  Revival Failed(int member, std::optional<Restarts::Cause> cause, TimePoint now);
  Revival Lost(int member, TimePoint over, TimePoint now);
  // The coordinator's newest epoch has these members, and no other rank.
  void TakePart(const std::vector<int>& members);
  // The coordinator goes on without this one, which may be stopped, hang, or join again.
  void Dropped(int member, TimePoint now);

  Course course() const;
  std::vector<int> TakeDue(TimePoint now) { return Start(restarts_.TakeDue(now)); }
  // Those that were dropped, still run and have not come back in time: each once, to be ended.
  std::vector<int> TakeStuck(TimePoint now);
  TimePoint deadline() const;  // when one of the two will have some; TimePoint::max(): none waits
  int restarts(int member) const { return restarts_.total(member); }

 private:
  enum class State { kEnded, kRuns, kTakesPart };

  std::vector<int> Start(std::vector<int> members);
  void End(int member, const Revival& revival);
  bool IsSpare(int member) const;
  int Count(State least) const;  // of the ranks

  const ElasticOptions options_;
  Restarts restarts_;
  std::vector<State> members_;
  std::map<int, TimePoint> dropped_;  // until when a member may come back
  bool told_ = false;                 // the coordinator says who takes part
  bool finished_ = false;             // one that takes part in the newest epoch ended with 0
  bool failed_ = false;               // one that takes part in it failed by itself
  bool coordinator_lost_ = false;
  bool cannot_begin_ = false;
};

}  // namespace ringwood
