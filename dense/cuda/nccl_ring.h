// A device's ring over NCCL: the calls of one rank in one epoch, put on one stream in the order in
// which they were made, as all ranks make them. dense/cuda/device_ring.h says what is promised;
// dense/cuda/ring_thread.h gives the ring its thread.
//
// Between two calls NCCL has to have taken the first; so the ring polls it, and while it does,
// later calls wait in a queue. A call with a plan is several steps, each of which waits for the one
// before in the same way. Only for sources that are built with CUDA.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "base/clock.h"
#include "base/cuda/runtime.h"
#include "base/loop.h"
#include "base/status.h"
#include "dense/cuda/device_ring.h"
#include "dense/cuda/nccl_communicator.h"
#include "dense/cuda/nccl_device.h"
#include "dense/cuda/ring_call.h"
#include "dense/cuda/ring_notices.h"

namespace ringwood {

// Everything is on the loop's thread.
class NcclRing : public DeviceRing, public std::enable_shared_from_this<NcclRing> {
 public:
  NcclRing(Loop* loop, nccl::Library library, const DeviceRingOptions& options)
      : loop_(loop),
        options_(options),
        communicator_(std::move(library), options.rank),
        notices_(loop) {}

  Status Start();  // from then on it lives until Close

  void AllReduce(const DeviceReduction& reduction,
                 std::function<void(StatusOr<AllReduceResult>)> done) override;
  void Broadcast(const DeviceBroadcast& broadcast, std::function<void(Status)> done) override;
  Status Close(const Status& reason) override;

 private:
  void Add(RingCall call);
  void Pump();
  bool Settled();  // NCCL is ready for the next call; false: asked again soon, or failed
  Status Issue(RingCall& call, uint64_t sequence);
  Status GoOn(RingCall& call, uint64_t sequence);  // the next step of its plan
  Status RunSum(const RingCall& call, size_t step);
  Status RunCoded(const RingCall& call, size_t step, uint64_t sequence);
  Status Finish(const RingCall& call, uint64_t sequence);  // after NCCL: digest, notice
  void Ended(uint64_t sequence);
  void Watch();
  void Fail(const Status& reason);
  void AnswerAll(const Status& reason);
  void Answer(RingCall call, StatusOr<AllReduceResult> result);

  Loop* const loop_;
  const DeviceRingOptions options_;
  NcclCommunicator communicator_;
  std::unique_ptr<Loop> aborter_;  // ncclCommAbort may hang: it gets a thread of its own
  CudaStream stream_;              // collectives
  RingNotices notices_;
  NcclDevice plans_{communicator_.library(), stream_};
  std::deque<RingCall> waiting_;
  std::map<uint64_t, RingCall> running_;  // by sequence; on the stream, or being put there
  uint64_t next_ = 0;
  bool issuing_ = false;  // running_.rbegin() is not all on the stream, or it is not known yet
  bool polling_ = false;
  TimePoint start_deadline_;
  Status failed_;
  bool closed_ = false;
};

// Closed when it is destroyed, also where it cannot start.
StatusOr<std::unique_ptr<DeviceRing>> MakeNcclRing(Loop* loop, const DeviceRingOptions& options);

}  // namespace ringwood
