// When a process of an elastic job that failed is started again. Pure: ends and the time come in,
// the members that are due come out; the supervisor asks, and knows what an end means.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "base/clock.h"
#include "launch/supervision/host_health.h"

namespace ringwood {

struct RestartOptions {
  int servers = 1;                 // members 0..servers-1; the others are ranks
  std::vector<std::string> hosts;  // by member
  int most = 10;                   // restarts of one rank within kRankWindowSeconds
  int host_failures = 5;           // HostHealthOptions
  double cooldown_seconds = 60;
};

// What becomes of a process that failed.
struct Revival {
  bool again = false;
  int count = 0;             // its restarts lately, this one included
  int most = 0;              // that are allowed
  double pause_seconds = 0;  // until it is started again
  bool set_aside = false;    // its host was, for this failure
};

class Restarts {
 public:
  // A server whose process ends so often within so short a time will not stay.
  static constexpr int kMostOfServer = 5;
  static constexpr double kServerWindowSeconds = 60;
  static constexpr double kRankWindowSeconds = 600;
  // The first restart comes at once, the next ones after 1, 2, 4, … seconds, until a process lived
  // so long.
  static constexpr double kSettledSeconds = 10;
  static constexpr double kLongestPauseSeconds = 16;
  // A host that was lost so often in a row, an hour or two of cool-downs, does not come back.
  static constexpr int kMostLosses = 100;

  enum class Cause {
    kAccident,  // killed, or its server or a peer died: a restart helps
    kOwn,       // the program failed by itself; the same may strike the others in this second
    kSuffered,  // 75, from another one's failure: nothing against its host
  };

  explicit Restarts(const RestartOptions& options);

  void Started(int member, TimePoint now);
  Revival Failed(int member, Cause cause, TimePoint now);
  // Its host was lost, which does not count against the process. From `over` on nothing of the job
  // runs there any more.
  Revival Lost(int member, TimePoint over, TimePoint now);

  // The members to start now: they are taken as started.
  std::vector<int> TakeDue(TimePoint now);
  TimePoint deadline() const;  // when TakeDue will have some; TimePoint::max(): none waits
  // How many ranks wait to be started; `helped`: after another failure than the program's own.
  int RanksWaiting(bool helped) const;

  int total(int member) const { return members_[member].total; }  // restarts of it so far

 private:
  struct Member {
    std::deque<TimePoint> restarts;  // within the window
    TimePoint started;
    int row = 0;  // failures without a life of kSettledSeconds between them
    int losses = 0;
    int total = 0;
    bool waits = false;
    bool own = false;  // it waits after a failure of the program's own
    TimePoint at;
  };

  bool IsServer(int member) const { return member < options_.servers; }
  TimePoint DueTime(int member) const;
  void Settle(Member* member, TimePoint now) const;
  static Duration Pause(Member* member);
  Revival Await(int member, TimePoint now);

  const RestartOptions options_;
  HostHealth health_;
  std::vector<Member> members_;
};

}  // namespace ringwood
