// The coordinator as a worker sees it: over gRPC in grpc/control.h; tests have their own.
//
// Calls block until the answer, at most `timeout`, and return an announced failure at once. While
// the coordinator is lost and looked for they wait, and are made again when it is back. One call at
// a time.
#pragma once

#include <functional>

#include "base/clock.h"
#include "base/status.h"
#include "ringwood/v1/control.pb.h"

namespace ringwood {

struct Attendance {
  uint64_t epoch = 0;
  uint32_t node = 0;
  uint64_t incarnation = 0;
  Duration every = Seconds(1);            // between heartbeats
  Duration failure_timeout = Seconds(5);  // a coordinator that is silent for so long is lost
  // For so long it is looked for then, at the same address, and may have been started again: the
  // epoch goes on. 0: its loss is the end of the epoch.
  Duration grace = Duration::zero();
  std::function<void(v1::Beat*)> fill;  // what a heartbeat says of the work; any thread
};

// A member died, or the coordinator is lost and was not back within the grace, or is back and says
// that the epoch is over: the status names who. With `recovers` an elastic job goes on in another
// epoch.
using EpochFailed = std::function<void(const Status& failure, bool recovers)>;

class Control {
 public:
  virtual ~Control() = default;  // ends the attendance; its callback does not run afterwards

  // Also while an attendance goes on whose epoch has failed: it beats on until EndAttendance, so
  // that the coordinator waits for this process. What ends the old epoch does not end this call.
  virtual StatusOr<v1::JoinResponse> Join(const v1::JoinRequest& request, Duration timeout) = 0;

  // Starts the heartbeats, and returns when the coordinator has the first one: from here on it
  // notices at once when this process ends. At most `timeout`. `failed` runs at most once, on a
  // thread of the control's. It must not block.
  virtual Status Attend(const Attendance& attendance, Duration timeout, EpochFailed failed) = 0;
  // Stops the heartbeats; `failed` does not run afterwards. Then another epoch may be joined.
  virtual void EndAttendance() = 0;

  virtual StatusOr<v1::AgreeResponse> Agree(const v1::AgreeRequest& request, Duration timeout) = 0;
  virtual StatusOr<v1::Commit> Vote(const v1::VoteRequest& request, Duration timeout) = 0;

  // Ends the call in flight with `why`, and every later one but Leave. The epoch that is attended
  // fails with it, and does not recover. Any thread; never waits.
  virtual void Interrupt(const Status& why) = 0;

  // Also after a failure. From here on the end of the heartbeat stream is not a death. Waits at
  // most `timeout` for a coordinator that is away.
  virtual Status Leave(const v1::LeaveRequest& request, Duration timeout) = 0;
};

}  // namespace ringwood
