// Which hosts of an elastic job are set aside for a while, since their processes fail again and
// again or they cannot be reached. Pure: events and the time come in.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "base/clock.h"

namespace ringwood {

struct HostHealthOptions {
  std::vector<std::string> hosts;  // of the job; names may repeat
  int failures = 5;                // within kWindowSeconds set a host aside; 0: never
  double cooldown_seconds = 60;    // for which it is set aside
};

class HostHealth {
 public:
  static constexpr double kWindowSeconds = 60;
  // What fails within one second on one host has one cause, as when memory is short, and counts
  // once.
  static constexpr double kIncidentSeconds = 1;
  // A host that was reached for so long is taken for one that is there again.
  static constexpr double kReachedSeconds = 10;

  explicit HostHealth(const HostHealthOptions& options);

  // A process there failed by itself. True: the host is set aside now for that. The last host that
  // is not set aside stays: there is nowhere else to go.
  bool Failed(const std::string& host, TimePoint now);
  // It cannot be reached, or what ran there is lost. It is set aside for 1, 2, 4, … seconds, at
  // most the cool-down, and at least until `over`, when nothing of the job runs there any more.
  void Lost(const std::string& host, TimePoint over, TimePoint now);

  TimePoint until(const std::string& host) const;  // set aside until then; TimePoint(): never was

 private:
  struct Health {
    std::deque<TimePoint> incidents;  // within the window
    int losses = 0;                   // in a row
    TimePoint lost;                   // the last one
    TimePoint until;
  };

  const HostHealthOptions options_;
  std::map<std::string, Health> hosts_;
};

}  // namespace ringwood
