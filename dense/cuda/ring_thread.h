// A device's ring on a thread of its own. NCCL is asked again and again whether it has taken a
// call; on the net loop that would delay every message of the sparse groups beside it.
//
// The ring bounds what NCCL takes by itself. What it cannot bound is a call of NCCL's or CUDA's
// that does not return to its thread, so the caller's loop watches that answers come.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "base/check.h"
#include "base/loop.h"
#include "base/status.h"
#include "dense/cuda/device_ring.h"
#include "dense/cuda/ring_calls.h"

namespace ringwood {

constexpr double kRingCloseSeconds = 2 * DeviceRing::kAbortSeconds;

// A ring of `timeout_seconds` that answers nothing for so long hangs: all ranks may come late, then
// the first call may take as long.
constexpr double RingSilenceSeconds(double timeout_seconds) { return 2 * timeout_seconds + 10; }

// The way from the ring's thread to the caller's loop. A thread that was given up may answer when
// that loop is gone.
class RingAnswers {
 public:
  explicit RingAnswers(Loop* loop) : loop_(loop) {}

  // Any thread. Dropped once they have ended, and by a loop that stops.
  void Post(Loop::Task answer) {
    absl::MutexLock lock(&mutex_);
    if (loop_ != nullptr) (void)loop_->PostReserved(std::move(answer));
  }
  void End() {
    absl::MutexLock lock(&mutex_);
    loop_ = nullptr;
  }

 private:
  absl::Mutex mutex_;
  Loop* loop_ ABSL_GUARDED_BY(mutex_);
};

// See MakeRingThread.
class RingThread : public DeviceRing {
 public:
  RingThread(Loop* loop, std::unique_ptr<Loop> own, std::shared_ptr<DeviceRing> ring,
             double silence_seconds)
      : loop_(loop),
        own_(std::move(own)),
        ring_(std::move(ring)),
        silence_seconds_(silence_seconds) {}
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
        calls_->hung.ok() ? Seconds(kRingCloseSeconds) : Duration{});
    // The ring answers by tasks of its own loop, which ends here and runs no further ones.
    if (closed.ok()) (void)own->Call([] { return OkStatus(); }, Seconds(kRingCloseSeconds));
    answers_->End();
    (void)loop_->PostReserved([calls = calls_, status = closed_] { calls->FailAll(status); });
    if (closed.ok()) return closed;
    own.release();  // joining a thread that hangs would hang here too
    return calls_->hung.ok() ? closed : calls_->hung;
  }

 private:
  // act(ring, callback) on the ring's thread; the callback brings its answer to `done` on the loop.
  template <typename Answer, typename Act>
  void Hand(Act act, std::function<void(Answer)> done) {
    RW_CHECK(loop_->OnThread());
    if (own_ == nullptr) return Later<Answer>(std::move(done), closed_);
    if (!calls_->hung.ok()) return Later<Answer>(std::move(done), calls_->hung);
    const uint64_t call = calls_->Begin([done](const Status& status) { done(Answer(status)); });
    const auto back = [answers = answers_, calls = calls_, call, done](Answer answer) {
      // At most kMaxInFlight are on their way.
      answers->Post([calls, call, done, answer = std::move(answer)] {
        if (calls->End(call)) done(answer);
      });
    };
    if (!own_->Post([act = std::move(act), ring = ring_, back] { act(ring.get(), back); })) {
      back(Exhausted("the queue of the device's ring is full"));
    }
    Watch(loop_, calls_, silence_seconds_);
  }

  template <typename Answer>
  void Later(std::function<void(Answer)> done, const Status& status) {
    (void)loop_->PostReserved([done = std::move(done), status] { done(Answer(status)); });
  }

  // While calls are under way. They and the loop may outlive the ring.
  static void Watch(Loop* loop, const std::shared_ptr<RingCalls>& calls, double silence_seconds) {
    if (std::exchange(calls->watched, true)) return;
    loop->After(Seconds(silence_seconds / 20), [loop, calls, silence_seconds] {
      calls->watched = false;
      if (calls->empty()) return;
      if (calls->silent() < Seconds(silence_seconds)) return Watch(loop, calls, silence_seconds);
      calls->hung = TimedOut(
          absl::StrFormat("the device's ring has answered nothing for %.0f s: its thread hangs in "
                          "CUDA or NCCL; end this process",
                          silence_seconds));
      calls->FailAll(calls->hung);
    });
  }

  Loop* const loop_;
  std::unique_ptr<Loop> own_;  // null once closed
  std::shared_ptr<DeviceRing> ring_;
  const double silence_seconds_;
  const std::shared_ptr<RingCalls> calls_ = std::make_shared<RingCalls>();
  const std::shared_ptr<RingAnswers> answers_ = std::make_shared<RingAnswers>(loop_);
  Status closed_;
};

// `make` makes the ring, on a loop that only it uses. Calls of the result are on `loop`'s thread,
// and so are their callbacks. Where the ring does not let go when it is closed, or answers nothing
// for `silence_seconds`, its thread is given up: TimedOut.
inline StatusOr<std::unique_ptr<DeviceRing>> MakeRingThread(
    Loop* loop, std::function<StatusOr<std::unique_ptr<DeviceRing>>(Loop*)> make,
    double silence_seconds) {
  RW_CHECK(loop->OnThread());
  auto own = std::make_unique<Loop>("rw-ring");
  auto ring = std::make_shared<std::shared_ptr<DeviceRing>>();
  const Status made = own->Call(
      [ring, make = std::move(make), loop = own.get()]() -> Status {
        RW_ASSIGN_OR_RETURN(*ring, make(loop));
        return OkStatus();
      },
      Seconds(DeviceRing::kMakeSeconds));
  if (!made.ok()) {
    if (made.code() == StatusCode::kDeadlineExceeded) own.release();  // it hangs
    return made;
  }
  return std::unique_ptr<DeviceRing>(
      std::make_unique<RingThread>(loop, std::move(own), std::move(*ring), silence_seconds));
}

}  // namespace ringwood
