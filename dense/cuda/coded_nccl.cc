#include "dense/cuda/coded_nccl.h"

#include <algorithm>

#include "dense/cuda/launch.h"
#include "dense/cuda/nccl_exchange.h"

namespace ringwood {

Status CodedNccl::Reserve(const cuda::CodedPlan& plan) {
  const uint64_t bytes = plan.staging_bytes;
  if (bytes <= staging_.size()) return OkStatus();
  DeviceBuffer<std::byte> larger;  // twice, so that what is outgrown adds up to as much at most
  RW_RETURN_IF_ERROR(
      larger.Allocate(std::max<uint64_t>(bytes, 2 * staging_.size()), stream_.get()));
  std::swap(larger, staging_);
  if (larger.size() > 0) outgrown_.push_back(std::move(larger));
  return OkStatus();
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

Status CodedNccl::Exchange(const cuda::CodedStep& step, std::byte* staging) {
  if (step.sends.empty()) return OkStatus();  // and then there is nothing to receive
  result_ = nccl::Exchange(library_, communicator_, step, staging, stream_.get());
  return OkStatus();
}

}  // namespace ringwood
