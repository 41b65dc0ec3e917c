// The workers that an attempt has started, and which of its members are behind each.
#pragma once

#include <poll.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "launch/remote.h"

namespace ringwood {

class Remotes {
 public:
  explicit Remotes(int members) : of_(members) {}
  ~Remotes() { Cut(); }  // nothing that they started on this host keeps running

  Status Start(const Reach& reach, const Job& job, int first_member);

  Remote* Of(int member) const { return of_[member]; }  // null: it ended or was never started
  void Ended(int member) { of_[member] = nullptr; }
  std::vector<int> MembersOf(const Remote* remote) const;  // those that have not ended

  // What to wait for, and what can be done without waiting. Both functions may start more workers.
  // read false: what they print has to wait.
  void AddStreams(bool read, std::vector<pollfd>* wait) const;
  void Progress(bool read, const std::function<void(Remote*, const Report&)>& hear,
                const std::function<void(Remote*, const Status&)>& lose);

  // To the workers whose first member is one of these.
  void Say(const std::string& word, int first, int end);
  void Abandon(Remote* remote);  // it is cut; what it started counts as running until its over()
  void Cut();
  void HangUp(double seconds);  // waits for the workers to end, at most so long
  void Sweep();                 // drops the connections to workers that are through

  // The time by which nothing of them runs any more, even on hosts that could not be told to end.
  TimePoint over() const;

 private:
  std::vector<std::unique_ptr<Remote>> all_;
  std::vector<Remote*> of_;  // by member
  TimePoint over_;           // of those that were abandoned
};

}  // namespace ringwood
