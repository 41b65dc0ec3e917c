// How long to wait for what another process has locked: a killed process holds it until its last
// write ends.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/status.h"

namespace ringwood {

struct LockPatience {
  LockPatience(Duration longest = Duration::zero(), std::function<bool()> give_up = nullptr)
      : time(longest), gives_up(std::move(give_up)) {}

  Duration time;                   // zero: one try
  std::function<bool()> gives_up;  // asked between two tries; true: no more of them. Optional
};

// Tries until `take` is true. Refused without patience; Unavailable when it is over, or was given
// up. `what` is locked: errors name it.
Status AwaitLock(const std::string& what, const LockPatience& patience,
                 const std::function<bool()>& take);

}  // namespace ringwood
