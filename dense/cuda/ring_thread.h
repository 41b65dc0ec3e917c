// A device's ring on a thread of its own. NCCL is asked again and again whether it has taken a
// call; on the net loop that would delay every message of the sparse groups beside it.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "base/check.h"
#include "base/loop.h"
#include "base/status.h"
#include "dense/cuda/device_ring.h"

namespace ringwood {

constexpr double kRingMakeSeconds = 60;  // the first use of a device in a process takes seconds
constexpr double kRingCloseSeconds = 2 * DeviceRing::kAbortSeconds;

// See MakeRingThread.
class RingThread : public DeviceRing {
 public:
  RingThread(Loop* loop, std::unique_ptr<Loop> own, std::shared_ptr<DeviceRing> ring)
      : loop_(loop), own_(std::move(own)), ring_(std::move(ring)) {}
  ~RingThread() override { (void)Close(Aborted("the ring was destroyed")); }

  void AllReduce(const DeviceReduction& reduction,
                 std::function<void(StatusOr<AllReduceResult>)> done) override {
    Hand<StatusOr<AllReduceResult>>(
        [reduction](DeviceRing* ring, auto back) { ring->AllReduce(reduction, std::move(back)); },
        std::move(done));
  }
  void Broadcast(const DeviceBroadcast& broadcast, std::function<void(Status)> done) override {
    Hand<Status>(
        [broadcast](DeviceRing* ring, auto back) { ring->Broadcast(broadcast, std::move(back)); },
        std::move(done));
  }

  Status Close(const Status& reason) override {
    if (own_ == nullptr) return OkStatus();
    RW_CHECK(loop_->OnThread());
    closed_ = reason.ok() ? Aborted("the ring was closed") : reason;
    auto own = std::move(own_);
    // What the task needs lives until it ends, however late. The ring ends on its own thread.
    const Status closed = own->Call(
        [ring = std::exchange(ring_, nullptr), reason]() mutable {
          const Status status = ring->Close(reason);
          if (status.ok()) ring.reset();
          return status;
        },
        Seconds(kRingCloseSeconds));
    if (!closed.ok()) own.release();  // joining a thread that hangs would hang here too
    return closed;
  }

 private:
  // act(ring, callback) on the ring's thread; the callback brings its answer to `done` on the loop.
  template <typename Answer, typename Act>
  void Hand(Act act, std::function<void(Answer)> done) {
    RW_CHECK(loop_->OnThread());
    std::function<void(Answer)> back = [loop = loop_, done = std::move(done)](Answer answer) {
      // At most kMaxInFlight are on their way. Refused only by a loop that stops.
      (void)loop->PostReserved([done, answer = std::move(answer)] { done(answer); });
    };
    if (own_ == nullptr) return back(closed_);
    if (!own_->Post([act = std::move(act), ring = ring_, back] { act(ring.get(), back); })) {
      back(Exhausted("the queue of the device's ring is full"));
    }
  }

  Loop* const loop_;
  std::unique_ptr<Loop> own_;  // null once closed
  std::shared_ptr<DeviceRing> ring_;
  Status closed_;
};

// `make` makes the ring, on a loop that only it uses. Calls of the result are on `loop`'s thread,
// and so are their callbacks. Where the ring does not let go when it is closed, its thread is given
// up.
inline StatusOr<std::unique_ptr<DeviceRing>> MakeRingThread(
    Loop* loop, std::function<StatusOr<std::unique_ptr<DeviceRing>>(Loop*)> make) {
  RW_CHECK(loop->OnThread());
  auto own = std::make_unique<Loop>("rw-ring");
  auto ring = std::make_shared<std::shared_ptr<DeviceRing>>();
  const Status made = own->Call(
      [ring, make = std::move(make), loop = own.get()]() -> Status {
        RW_ASSIGN_OR_RETURN(*ring, make(loop));
        return OkStatus();
      },
      Seconds(kRingMakeSeconds));
  if (!made.ok()) {
    if (made.code() == StatusCode::kDeadlineExceeded) own.release();  // it hangs
    return made;
  }
  return std::unique_ptr<DeviceRing>(
      std::make_unique<RingThread>(loop, std::move(own), std::move(*ring)));
}

}  // namespace ringwood
