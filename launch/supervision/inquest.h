// What went wrong in an attempt, and the verdict: who failed first, with which code the job ends,
// whether a restart helps. Pure: the supervisor says what happens, in its order.
//
// Many fail when one does. Its neighbours say so with 75, scripts around them make codes of their
// own of it, and whom the coordinator names may have hung until it was killed by us.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "launch/supervision/ending.h"

namespace ringwood {

// How the attempt ended.
struct Verdict {
  int exit_code = kExitOk;
  bool restart_helps = false;
  bool unreachable = false;  // hosts, ports or a store were not available: pause before a restart
  int culprit = -1;          // the member that failed first; -1: none, or none in particular
  std::string reason;        // "exited with code 1"; with a culprit it follows that name
  std::string told;          // the coordinator's message; empty: none
  int first = -1;            // the first member that failed by itself, if it is not the culprit
  std::string first_reason;  // empty: only its output is of interest
};

class Inquest {
 public:
  struct Options {
    int servers = 1;                  // members below this number
    bool elastic = false;             // the job goes on without those that fail
    bool restart_on_failure = false;  // also if a rank exited with a code of its own
  };

  explicit Inquest(const Options& options) : options_(options) {}

  void StartedAgain(int member);
  void Ended(int member, const Ending& ending);  // by itself, or by a signal of ours
  // Its end is a failure of its own: no signal of ours, or it was stopped.
  void Failed(int member, const Ending& ending, const std::string& reason);
  bool HasFailed(int member) const;
  bool NothingFailed() const { return failures_.empty() && broken_.ok(); }
  bool HasCause() const { return FirstOwn() != nullptr; }  // by one that did not only suffer
  void Back(int member);  // it serves again: what it failed by is no cause of what follows
  // A failure that is not the end of one member. The first counts.
  void Broke(const Status& status);
  // The coordinator's verdict on an epoch. The first counts: true. `member` -1: it names nobody.
  bool Told(int member, const std::string& sentence);

  const std::string& told() const { return told_; }
  Verdict Judge() const;

 private:
  struct Failure {
    int member;
    Ending ending;
    std::string reason;
    Meaning meaning;
  };

  const Failure* Culprit() const;
  const Failure* Blamed() const;
  const Failure* FirstOwn() const;
  const Failure* FirstOf(bool configuration) const;
  void PutBlame(Meaning meaning, Verdict* verdict) const;

  const Options options_;
  std::vector<Failure> failures_;  // in their order
  std::map<int, Ending> endings_;  // of members that do not run again
  Status broken_;                  // the first
  bool broken_first_ = false;      // before any member's failure: those are consequences of it
  std::string told_;               // by the coordinator, when its epoch ended
  int blamed_ = -1;                // the member that it named
};

}  // namespace ringwood
