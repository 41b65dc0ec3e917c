// When the next checkpoint is due, where the trainer leaves that to us. Pure: times come in.
//
// Losing everything costs half an interval on average, saving costs what a checkpoint stops the
// training for. The sum is least at sqrt(2 * MTBF * stop) (Young 1974, Daly 2006); no more than
// kBudget of the time is spent on stops, and a checkpoint ends before the next one begins.
#pragma once

#include <optional>

#include "base/clock.h"

namespace ringwood {

class SaveClock {
 public:
  static constexpr double kBudget = 0.02;
  // Before a failure was seen: one a day.
  static constexpr double kFailureSeconds = 24 * 3600;
  // The first one, which shows what one costs: when the training has got going.
  static constexpr double kFirstSeconds = 10;
  // Between checkpoints that readers want: what they cost the store is not measured here.
  static constexpr double kWantedSeconds = 2;

  // `failures`: that are known of when the session begins.
  SaveClock(TimePoint start, int failures)
      : start_(start), last_(start), told_(start), failures_(failures) {}

  void Failed() { ++failures_; }
  // The trainer was told that a checkpoint is due.
  void Told(TimePoint now);
  // A checkpoint began at `begun` and stopped the trainer for `stop`; it was complete after `took`.
  void Stopped(TimePoint begun, Duration stop);
  void Completed(Duration took) { took_ = took; }

  // `wanted`: a reader waits for one. It then comes as soon as the budget allows. A trainer that
  // saves without being told ignores this, which costs nothing: the reader gets its next one.
  bool Due(TimePoint now, bool wanted = false) const;
  Duration Interval(TimePoint now, bool wanted = false) const;

 private:
  double FailureSeconds(TimePoint now) const;

  const TimePoint start_;
  TimePoint last_;           // checkpoint began
  TimePoint told_;           // last
  bool told_since_ = false;  // `last_`
  bool untold_ = false;      // the last one began without being told
  int failures_;
  std::optional<Duration> stop_;  // of the longest of the last two
  Duration before_ = Duration::zero();
  Duration took_ = Duration::zero();
};

}  // namespace ringwood
