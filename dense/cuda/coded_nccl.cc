#include "dense/cuda/coded_nccl.h"

#include <algorithm>

#include "dense/cuda/launch.h"
#include "dense/cuda/nccl_exchange.h"

namespace ringwood {
namespace {

constexpr uint64_t kStagingAlign = 256;  // bytes, as CUDA's own allocations

uint64_t StagingAligned(uint64_t bytes) {
  return (bytes + kStagingAlign - 1) / kStagingAlign * kStagingAlign;
}

}  // namespace

Status CodedNccl::Reserve(const cuda::CodedPlan& plan) {
  const uint64_t bytes = 2 * StagingAligned(plan.code_bytes) + plan.sum_bytes;
  if (bytes <= staging_.size()) return OkStatus();
  DeviceBuffer<std::byte> larger;  // twice, so that what is outgrown adds up to as much at most
  RW_RETURN_IF_ERROR(
      larger.Allocate(std::max<uint64_t>(bytes, 2 * staging_.size()), stream_.get()));
  std::swap(larger, staging_);
  if (larger.size() > 0) outgrown_.push_back(std::move(larger));
  return OkStatus();
}

void CodedNccl::Place(const cuda::CodedPlan& plan, cuda::CodedMemory* memory) const {
  memory->sent = staging_.data();
  memory->came = memory->sent + StagingAligned(plan.code_bytes);
  memory->sums = memory->came + StagingAligned(plan.code_bytes);
}

Status CodedNccl::Encode(const cuda::EncodeView& view) {
  return FromCuda(cuda::LaunchEncode(view, stream_.get()), "encode gradients");
}
Status CodedNccl::Add(const cuda::AddView& view) {
  return FromCuda(cuda::LaunchAdd(view, stream_.get()), "add codes");
}
Status CodedNccl::Decode(const cuda::DecodeView& view) {
  return FromCuda(cuda::LaunchDecode(view, stream_.get()), "decode sums");
}

Status CodedNccl::Exchange(std::span<const cuda::CodedMessage> messages, const std::byte* sent,
                           std::byte* came) {
  if (communicator_ != nullptr) {
    result_ = nccl::AllToAll(library_, communicator_, messages, sent, came, stream_.get());
  }
  return OkStatus();
}

Status CodedNccl::Gather(uint64_t own, uint64_t bytes, std::byte* sums) {
  if (communicator_ != nullptr) {
    result_ = nccl::AllGatherInPlace(library_, communicator_, own, bytes, sums, stream_.get());
  }
  return OkStatus();
}

}  // namespace ringwood
