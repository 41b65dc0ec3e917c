// Notices that nobody moves: heartbeats come, but no gradient becomes ready and no vote arrives for
// several times as long as a step takes. Pure: times come in as arguments.
#pragma once

#include <array>
#include <cstddef>
#include <optional>

#include "base/clock.h"

namespace ringwood {

class StallWatch {
 public:
  static constexpr double kSteps = 5;        // of median length without a move are a stall
  static constexpr size_t kRemembered = 33;  // steps that the median is taken of

  // Never before `least`; before the first step has shown how long one takes, after `first`.
  StallWatch(Duration least, Duration first) : least_(least), first_(first) {}

  void Start(TimePoint now);      // an epoch begins: nothing is known of its steps
  void Moved(TimePoint now);      // somebody did something
  void Committed(TimePoint now);  // everybody did: a step is over
  void Forgive(Duration gap);     // we ourselves stood still

  Duration Still(TimePoint now) const { return now - moved_; }
  std::optional<Duration> MedianStep() const;

  // The time without a move, when it has become worth a line: at the limit, then each time it has
  // doubled.
  std::optional<Duration> Due(TimePoint now);

 private:
  const Duration least_, first_;
  TimePoint moved_, committed_;
  bool any_commit_ = false;  // the time to the first is of the start
  std::array<Duration, kRemembered> steps_{};
  size_t count_ = 0;  // of all steps
  Duration next_{};   // the silence that is worth the next line; zero: the limit
};

}  // namespace ringwood
