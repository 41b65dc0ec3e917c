// How long something had work, where pieces of it may overlap: a lane with several groups.
#pragma once

#include "base/clock.h"

namespace ringwood {

class BusyTime {
 public:
  void Begin(TimePoint at) {
    if (running_++ == 0) since_ = at;
  }
  // For how long there was work, if this was the last piece; else zero. An end without its
  // beginning does not count.
  Duration End(TimePoint at) {
    if (running_ == 0 || --running_ > 0) return Duration();
    return at - since_;
  }

 private:
  int running_ = 0;
  TimePoint since_;
};

}  // namespace ringwood
