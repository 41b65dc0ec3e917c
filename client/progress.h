// Tells the coordinator, in heartbeats, how many gradients of this rank are ready: those of a round
// that is exchanged again in another epoch count there too.
#pragma once

#include "client/connection/control.h"
#include "timeline/observer.h"

namespace ringwood {

class Progress : public Observer {
 public:
  explicit Progress(Control* control) : control_(control) {}  // outlives this

  void GradientReady(uint64_t, uint32_t, TimePoint) override { control_->Advance(); }

 private:
  Control* const control_;
};

}  // namespace ringwood
