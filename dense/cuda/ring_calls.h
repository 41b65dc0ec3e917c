// Calls of a ring that are not answered yet, and for how long none has been.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "base/clock.h"
#include "base/status.h"

namespace ringwood {

// On one thread. What bounds them is the mailbox of the ring's thread, and kMaxInFlight behind it:
// a call that either refuses is answered at once.
class RingCalls {
 public:
  // `fail` answers the call. Returns its number.
  uint64_t Begin(std::function<void(const Status&)> fail) {
    if (fail_.empty()) moved_ = Now();
    fail_.emplace(next_, std::move(fail));
    return next_++;
  }
  // False: it has been answered.
  bool End(uint64_t call) {
    moved_ = Now();
    return fail_.erase(call) != 0;
  }
  void FailAll(const Status& reason) {
    for (const auto& [call, fail] : std::exchange(fail_, {})) fail(reason);
  }
  bool empty() const { return fail_.empty(); }
  Duration silent() const { return fail_.empty() ? Duration{} : Now() - moved_; }

  bool watched = false;  // a timer runs
  Status hung;           // the ring's thread does

 private:
  std::map<uint64_t, std::function<void(const Status&)>> fail_;
  uint64_t next_ = 0;
  TimePoint moved_;  // the last answer, or the first call since there was none
};

}  // namespace ringwood
