// Detects a stall: heartbeats arrive, but no gradient becomes ready and no vote arrives for several
// times the length of a step. Pure: times come in as arguments.
#pragma once

#include <array>
#include <cstddef>
#include <optional>

#include "base/clock.h"

namespace ringwood {

class StallWatch {
 public:
  static constexpr double kSteps = 5;        // without progress, of median length, are a stall
  static constexpr size_t kRemembered = 33;  // number of steps in the median
  static constexpr double kWaitSeconds = 2;  // the least that counts where ranks wait for others

  // Never before `least`, where all stand at the same point: they may evaluate. Before the first
  // step is over, after `first`.
  StallWatch(Duration least, Duration first) : least_(least), first_(first) {}

  void Start(TimePoint now);      // an epoch begins: nothing is known of its steps
  void Moved(TimePoint now);      // some rank made progress
  void Committed(TimePoint now);  // a step is over
  void Forgive(Duration gap);     // the coordinator itself stood still

  Duration Still(TimePoint now) const { return now - moved_; }
  std::optional<Duration> MedianStep() const;

  // The time without progress when a log line is due: at the limit, then each time it has doubled.
  // `waits`: some ranks are further than others.
  std::optional<Duration> Due(bool waits, TimePoint now);

 private:
  const Duration least_, first_;
  TimePoint moved_, committed_;
  bool any_commit_ = false;  // the time to the first is of the start
  std::array<Duration, kRemembered> steps_{};
  size_t count_ = 0;  // of all steps
  Duration next_{};   // when the next line is due; zero: at the limit
};

}  // namespace ringwood
