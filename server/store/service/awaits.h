// The calls that wait for the outcome of a checkpoint. Used on the store's loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>

#include "base/clock.h"
#include "base/loop.h"
#include "base/status.h"
#include "ringwood/v1/store.pb.h"
#include "server/calls/held_calls.h"

namespace ringwood {

class Awaits {
 public:
  using Call = HeldCall<v1::AwaitResponse>;
  // How the checkpoint of a step in an epoch ended; nothing: it has not.
  using Outcome = std::function<std::optional<Status>(uint64_t epoch, uint64_t step)>;

  Awaits(Loop* loop, size_t most) : loop_(loop), most_(most) {}

  void Enter(uint64_t id, const v1::AwaitRequest& request, Call* call, const Outcome& outcome);
  void Leave(uint64_t id);  // its caller went away
  void Answer(const Outcome& outcome);
  void Close(const Status& why);

 private:
  struct Waiter {
    uint64_t epoch;
    uint64_t step;
    TimePoint deadline;
    Call* call;
  };
  void EndOverdue();

  Loop* const loop_;
  const size_t most_;
  std::map<uint64_t, Waiter> waiters_;
  bool looking_ = false;  // EndOverdue comes again
};

}  // namespace ringwood
