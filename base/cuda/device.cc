#include "base/cuda/device.h"

#include "absl/strings/str_format.h"
#include "base/cuda/runtime.h"

namespace ringwood {
namespace {

class CudaArray : public DeviceArray {
 public:
  explicit CudaArray(int device) : device_(device) {}

  Status Allocate(size_t bytes) {
    const DeviceScope scope(device_);
    RW_RETURN_IF_ERROR(scope.status());
    RW_RETURN_IF_ERROR(memory_.Allocate(bytes, nullptr));
    return FromCuda(cudaStreamSynchronize(nullptr), "zero device memory");
  }
  void* data() override { return memory_.data(); }
  size_t bytes() const override { return memory_.size(); }
  Status Upload(std::span<const std::byte> from) override {
    return Copy(memory_.data(), from.data(), from.size(), cudaMemcpyHostToDevice);
  }
  Status Download(std::span<std::byte> into) const override {
    return Copy(into.data(), memory_.data(), into.size(), cudaMemcpyDeviceToHost);
  }

 private:
  Status Copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) const {
    RW_CHECK(bytes <= memory_.size());
    if (bytes == 0) return OkStatus();
    const DeviceScope scope(device_);
    RW_RETURN_IF_ERROR(scope.status());
    RW_RETURN_IF_ERROR(FromCuda(cudaMemcpy(to, from, bytes, kind), "copy device memory"));
    // From pageable memory the call may return before the last piece is on the device, and streams
    // that do not wait for the default one would not wait for that.
    return FromCuda(cudaStreamSynchronize(nullptr), "copy device memory");
  }

  const int device_;
  DeviceBuffer<std::byte> memory_;
};

}  // namespace

Status FromCuda(cudaError_t error, const std::string& what) {
  if (error == cudaSuccess) return OkStatus();
  (void)cudaGetLastError();
  const std::string message = what + ": " + cudaGetErrorString(error);
  switch (error) {
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
      return Refused(message + "; is the NVIDIA driver loaded and a device visible here?");
    case cudaErrorInitializationError:
    case cudaErrorDevicesUnavailable:  // another process has it
      return Unavailable(message + "; is the device free, and visible here?");
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorInvalidDeviceFunction:
      return Refused(message +
                     "; this build is for other devices: -DRINGWOOD_CUDA_ARCHITECTURES names "
                     "more, from 80 on");
    case cudaErrorMemoryAllocation:
      return Exhausted(message);
    case cudaErrorInvalidValue:
    case cudaErrorInvalidDevice:
      return Invalid(message);
    default:
      return Internal(message);
  }
}

StatusOr<int> CountDevices() {
  int count = 0;
  RW_RETURN_IF_ERROR(FromCuda(cudaGetDeviceCount(&count), "count CUDA devices"));
  if (count == 0) return Refused("there is no CUDA device here");
  return count;
}

StatusOr<std::unique_ptr<DeviceArray>> MakeDeviceArray(int device, size_t bytes) {
  auto array = std::make_unique<CudaArray>(device);
  RW_RETURN_IF_ERROR(array->Allocate(bytes));
  return std::unique_ptr<DeviceArray>(std::move(array));
}

}  // namespace ringwood
