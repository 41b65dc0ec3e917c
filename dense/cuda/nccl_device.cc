#include "dense/cuda/nccl_device.h"

#include <algorithm>

#include "dense/cuda/launch.h"
#include "dense/cuda/nccl_exchange.h"

namespace ringwood {

Status NcclDevice::Reserve(uint64_t bytes) {
  if (bytes <= staging_.size()) return OkStatus();
  DeviceBuffer<std::byte> larger;  // twice, so that what is outgrown adds up to as much at most
  RW_RETURN_IF_ERROR(
      larger.Allocate(std::max<uint64_t>(bytes, 2 * staging_.size()), stream_.get()));
  std::swap(larger, staging_);
  if (larger.size() > 0) outgrown_.push_back(std::move(larger));
  return OkStatus();
}

Status NcclDevice::Exchange(std::span<const cuda::SendView> sends,
                            std::span<const cuda::ReceiveView> receives) {
  if (sends.empty() && receives.empty()) return OkStatus();
  result_ = nccl::Exchange(library_, communicator_, sends, receives, stream_.get());
  return OkStatus();
}

Status NcclDevice::Sum(const cuda::SumView& view) {
  return FromCuda(cuda::LaunchSum(view, stream_.get()), "add gradients");
}
Status NcclDevice::Encode(const cuda::EncodeView& view) {
  return FromCuda(cuda::LaunchEncode(view, stream_.get()), "encode gradients");
}
Status NcclDevice::Add(const cuda::AddView& view) {
  return FromCuda(cuda::LaunchAdd(view, stream_.get()), "add codes");
}
Status NcclDevice::Decode(const cuda::DecodeView& view) {
  return FromCuda(cuda::LaunchDecode(view, stream_.get()), "decode sums");
}

}  // namespace ringwood
