// The device of a rank's plans: kernels on a ring's stream, and NCCL, which moves bytes between
// them. Only for sources that are built with CUDA.
#pragma once

#include <utility>
#include <vector>

#include "base/cuda/runtime.h"
#include "dense/cuda/nccl_library.h"
#include "dense/cuda/plan_device.h"

namespace ringwood {

// On the ring's thread, its device current. A step returns before the device has made it, and NCCL
// perhaps before it has taken it: `result` says so, and then the next step has to wait, or its
// kernel would come before NCCL's on the stream.
class NcclDevice : public cuda::PlanDevice {
 public:
  // `library` and `stream` outlive this; so does the communicator, which is null in a world of one.
  NcclDevice(const nccl::Library& library, const CudaStream& stream)
      : library_(library), stream_(stream) {}
  void Use(nccl::Communicator* communicator) { communicator_ = communicator; }

  // Staging memory, shared by all plans that run on the stream, one after the other. What it grows
  // out of stays until the end: freeing it would wait for the device, and so for other ranks.
  Status Reserve(uint64_t bytes);
  std::byte* staging() const { return staging_.data(); }

  Status Exchange(std::span<const cuda::SendView> sends,
                  std::span<const cuda::ReceiveView> receives) override;
  Status Sum(const cuda::SumView& view) override;
  Status Encode(const cuda::EncodeView& view) override;
  Status Add(const cuda::AddView& view) override;
  Status Decode(const cuda::DecodeView& view) override;

  // NCCL's, of the last step; success where it made no call.
  int TakeResult() { return std::exchange(result_, nccl::kSuccess); }

 private:
  const nccl::Library& library_;
  const CudaStream& stream_;
  nccl::Communicator* communicator_ = nullptr;
  DeviceBuffer<std::byte> staging_;
  std::vector<DeviceBuffer<std::byte>> outgrown_;
  int result_ = nccl::kSuccess;
};

}  // namespace ringwood
