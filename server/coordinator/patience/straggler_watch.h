// Finds the ranks that hold up a step for longer than the others are willing to wait: those have
// all their gradients ready, these do not. Pure: times come in as arguments.
//
// Counted from when enough ranks were ready to go on without the rest, so a rank is never late
// because the others were fast: it had the grace on top of the time that half of them took.
#pragma once

#include <cstdint>
#include <vector>

#include "base/clock.h"

namespace ringwood {

class StragglerWatch {
 public:
  // A grace of 0: nobody is late.
  explicit StragglerWatch(Duration grace) : grace_(grace) {}

  struct Worker {
    bool ready = false;   // it has all gradients of the round
    bool exempt = false;  // it is not counted and not late
  };

  // The late ones of `workers`, ascending, of whom at least `least` and at least half are ready for
  // `round`; usually none. To be asked several times within a grace.
  std::vector<uint32_t> Late(uint64_t round, const std::vector<Worker>& workers, uint32_t least,
                             TimePoint now);
  Duration Waited(TimePoint now) const { return now - since_; }
  void Forgive(Duration gap) { since_ += gap; }  // the coordinator itself stood still

 private:
  const Duration grace_;
  uint64_t round_ = 0;  // for which enough are ready; 0: none
  TimePoint since_;     // they are
};

}  // namespace ringwood
