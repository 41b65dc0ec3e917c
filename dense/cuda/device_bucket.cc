#include "dense/cuda/device_bucket.h"

#include "base/check.h"
#include "base/cuda/device.h"
#include "base/cuda/runtime.h"
#include "dense/cuda/launch.h"

namespace ringwood {
namespace {

class CudaBucket : public DeviceBucket {
 public:
  CudaBucket(int device, uint64_t elements) : device_(device), elements_(elements) {}
  ~CudaBucket() override {
    const DeviceScope scope(device_);
    if (stream_.get() != nullptr) cudaStreamSynchronize(stream_.get());
  }

  Status Allocate() {
    const DeviceScope scope(device_);
    RW_RETURN_IF_ERROR(scope.status());
    RW_RETURN_IF_ERROR(stream_.Create());
    RW_RETURN_IF_ERROR(input_.Allocate(elements_, stream_.get()));
    RW_RETURN_IF_ERROR(output_.Allocate(elements_, stream_.get()));
    RW_RETURN_IF_ERROR(largest_.Allocate(1, stream_.get()));
    RW_RETURN_IF_ERROR(host_largest_.Allocate(1, stream_.get()));
    return order_.Create();
  }

  Status Owe(uint64_t first, std::span<const float> values) override {
    RW_CHECK(first + values.size() <= elements_);
    const DeviceScope scope(device_);
    RW_RETURN_IF_ERROR(scope.status());
    if (owed_.data() == nullptr) RW_RETURN_IF_ERROR(owed_.Allocate(elements_, stream_.get()));
    owes_ = true;
    RW_RETURN_IF_ERROR(
        FromCuda(cudaMemcpyAsync(owed_.data() + first, values.data(), values.size_bytes(),
                                 cudaMemcpyHostToDevice, stream_.get()),
                 "copy a residual to the device"));
    return FromCuda(cudaStreamSynchronize(stream_.get()), "copy a residual to the device");
  }
  // The memory stays until the plan goes: giving it back would make the trainer wait.
  void Forgive() override { owes_ = false; }

  Status Pack(std::span<const Part> parts, float weight) override {
    const DeviceScope scope(device_);
    RW_RETURN_IF_ERROR(scope.status());
    const cudaStream_t stream = stream_.get();
    RW_RETURN_IF_ERROR(
        FromCuda(cudaMemsetAsync(largest_.data(), 0, sizeof(uint32_t), stream), "begin to pack"));
    uint64_t at = 0;
    for (const Part& part : parts) {
      RW_RETURN_IF_ERROR(order_.Order(static_cast<cudaStream_t>(part.stream), stream));
      RW_CHECK(at + part.elements <= elements_);
      const float* const owed = owes_ ? owed_.data() + at : nullptr;
      RW_RETURN_IF_ERROR(FromCuda(cuda::LaunchScale(part.data, weight, owed, input_.data() + at,
                                                    part.elements, largest_.data(), stream),
                                  "pack a gradient"));
      at += part.elements;
    }
    RW_CHECK(at == elements_);
    return FromCuda(cudaMemcpyAsync(host_largest_.data(), largest_.data(), sizeof(uint32_t),
                                    cudaMemcpyDeviceToHost, stream),
                    "end packing");
  }

  uint32_t largest() const override { return *host_largest_.data(); }

  Status Unpack(std::span<const Part> parts, double total) override {
    const DeviceScope scope(device_);
    RW_RETURN_IF_ERROR(scope.status());
    uint64_t at = 0;
    for (const Part& part : parts) {
      RW_RETURN_IF_ERROR(
          FromCuda(cuda::LaunchDivide(output_.data() + at, total, part.data, part.elements,
                                      static_cast<cudaStream_t>(part.stream)),
                   "give an average to the trainer"));
      at += part.elements;
    }
    return OkStatus();
  }

  const float* input() const override { return input_.data(); }
  float* output() override { return output_.data(); }
  uint64_t elements() const override { return elements_; }
  void* stream() const override { return stream_.get(); }

 private:
  const int device_;
  const uint64_t elements_;
  CudaStream stream_;
  DeviceBuffer<float> input_, output_;
  DeviceBuffer<float> owed_;  // empty until something is
  bool owes_ = false;
  DeviceBuffer<uint32_t> largest_;
  PinnedBuffer<uint32_t> host_largest_;
  CudaEvent order_;
};

}  // namespace

StatusOr<std::unique_ptr<DeviceBucket>> MakeDeviceBucket(int device, uint64_t elements) {
  RW_RETURN_IF_ERROR(CountDevices().status());
  auto bucket = std::make_unique<CudaBucket>(device, elements);
  RW_RETURN_IF_ERROR(bucket->Allocate());
  return std::unique_ptr<DeviceBucket>(std::move(bucket));
}

}  // namespace ringwood
