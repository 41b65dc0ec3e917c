// How the loop of a device's ring hears that a call is through, and what its result is: digests of
// the result are computed on the device and copied to the host, then a callback of CUDA's posts a
// notice. No thread waits.
//
// All this is on a stream of its own: a callback of CUDA's holds up what stands behind it on its
// stream, and that must be no collective. On the ring's thread, its device current. Only for
// sources that are built with CUDA.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "base/cuda/runtime.h"
#include "base/loop.h"
#include "base/status.h"
#include "dense/cuda/ring_call.h"

namespace ringwood {

class RingNotices {
 public:
  // `loop` outlives every callback.
  explicit RingNotices(Loop* loop) : loop_(loop) {}

  // Memory for DeviceRing::kMaxInFlight calls, zeroed on `stream`.
  Status Create(cudaStream_t stream);

  // Of the call with this sequence number: where kernels on `stream` put the largest of its next
  // reaches, after Clear.
  uint32_t* most(uint64_t sequence) const { return &findings_.data()[SlotOf(sequence)].most; }
  Status Clear(uint64_t sequence, cudaStream_t stream, const std::string& name) const;

  // Once all that `stream` holds now is through, so is the call: `ended` runs on the loop, and Of
  // has what was found. `ended` may be destroyed inside CUDA's callback, so it must own nothing:
  // the last owner of a ring would free CUDA's memory there, which CUDA forbids.
  Status Post(const RingCall& call, uint64_t sequence, cudaStream_t stream,
              std::function<void()> ended) const;
  const RingFindings& Of(uint64_t sequence) const {
    return host_findings_.data()[SlotOf(sequence)];
  }

  // Null where Create failed.
  cudaStream_t stream() const { return stream_.get(); }

 private:
  static size_t SlotOf(uint64_t sequence) { return sequence % DeviceRing::kMaxInFlight; }

  Loop* const loop_;
  CudaStream stream_;
  DeviceBuffer<RingFindings> findings_;
  PinnedBuffer<RingFindings> host_findings_;
};

}  // namespace ringwood
