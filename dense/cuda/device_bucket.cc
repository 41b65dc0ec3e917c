#include "dense/cuda/device_bucket.h"

#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/cuda/device.h"
#include "base/cuda/runtime.h"
#include "base/cuda/stream_marks.h"
#include "dense/cuda/launch.h"
#include "dense/cuda/part_table.h"

namespace ringwood {
namespace {

class CudaBucket : public DeviceBucket {
 public:
  CudaBucket(int device, uint64_t elements, DataType type)
      : device_(device), elements_(elements), type_(type) {}
  ~CudaBucket() override {
    const DeviceScope scope(device_);
    if (stream_.get() != nullptr) cudaStreamSynchronize(stream_.get());
  }

  Status Allocate() {
    const DeviceScope scope(device_);
    RW_RETURN_IF_ERROR(scope.status());
    RW_RETURN_IF_ERROR(FromCuda(cuda::LoadDenseKernels(), "load the kernels of a bucket"));
    RW_RETURN_IF_ERROR(stream_.Create());
    RW_RETURN_IF_ERROR(input_.Allocate(elements_ * SizeOf(type_), stream_.get()));
    RW_RETURN_IF_ERROR(largest_.Allocate(1, stream_.get()));
    RW_RETURN_IF_ERROR(host_largest_.Allocate(1, stream_.get()));
    RW_RETURN_IF_ERROR(copied_.Create());
    return order_.Create();
  }

  Status Owe(uint64_t first, std::span<const float> values) override {
    RW_CHECK(first + values.size() <= elements_);
    const DeviceScope scope(device_);
    RW_RETURN_IF_ERROR(scope.status());
    if (owed_.data() == nullptr) RW_RETURN_IF_ERROR(owed_.Allocate(elements_, stream_.get()));
    owes_ = true;
    return Copy(owed_.data() + first, values.data(), values.size_bytes(), cudaMemcpyHostToDevice,
                "copy a residual to the device");
  }
  // The memory stays until the plan goes: giving it back would make the trainer wait.
  void Forgive() override { owes_ = false; }

  Status Mark(void* stream) override {
    const DeviceScope scope(device_);
    RW_RETURN_IF_ERROR(scope.status());
    return marks_.Record(static_cast<cudaStream_t>(stream));
  }

  Status Pack(std::span<const Part> parts, float weight) override {
    const DeviceScope scope(device_);
    RW_RETURN_IF_ERROR(scope.status());
    cuda::PartTable table = cuda::TableOf(parts);
    const cudaStream_t stream = stream_.get();
    for (const cuda::StreamParts& of : table.streams) {
      RW_RETURN_IF_ERROR(marks_.Await(stream, static_cast<cudaStream_t>(of.stream)));
    }
    RW_RETURN_IF_ERROR(Upload(std::move(table)));
    RW_RETURN_IF_ERROR(
        FromCuda(cudaMemsetAsync(largest_.data(), 0, sizeof(uint32_t), stream), "begin to pack"));
    for (const cuda::StreamParts& of : table_.streams) {
      RW_RETURN_IF_ERROR(
          FromCuda(cuda::LaunchPack(type_, View(of), weight, owes_ ? owed_.data() : nullptr,
                                    input_.data(), largest_.data(), stream),
                   "pack gradients"));
    }
    return FromCuda(cudaMemcpyAsync(host_largest_.data(), largest_.data(), sizeof(uint32_t),
                                    cudaMemcpyDeviceToHost, stream),
                    "end packing");
  }

  uint32_t largest() const override { return *host_largest_.data(); }

  // The table is where Pack has put it, unless the tensors moved since.
  Status Unpack(std::span<const Part> parts, double total) override {
    const DeviceScope scope(device_);
    RW_RETURN_IF_ERROR(scope.status());
    RW_RETURN_IF_ERROR(Upload(cuda::TableOf(parts)));
    for (const cuda::StreamParts& of : table_.streams) {
      const auto stream = static_cast<cudaStream_t>(of.stream);
      RW_RETURN_IF_ERROR(order_.Order(stream_.get(), stream));
      RW_RETURN_IF_ERROR(FromCuda(cuda::LaunchUnpack(type_, View(of), output(), total, stream),
                                  "give averages to the trainer"));
    }
    return OkStatus();
  }

  Status UseCodes(int bits, BlockReach less) override {
    RW_CHECK(bits_ == 0 && bits != 0 && type_ == DataType::kFloat32);
    const DeviceScope scope(device_);
    RW_RETURN_IF_ERROR(scope.status());
    RW_RETURN_IF_ERROR(error_.Allocate(input_.size(), stream_.get()));
    RW_RETURN_IF_ERROR(sum_.Allocate(input_.size(), stream_.get()));
    RW_RETURN_IF_ERROR(reach_.Allocate(LatticeBlocks(elements_), stream_.get()));
    RW_RETURN_IF_ERROR(next_reach_.Allocate(LatticeBlocks(elements_), stream_.get()));
    bits_ = bits;
    less_ = less;
    return OkStatus();
  }
  DeviceCodes codes() const override {
    if (bits_ == 0) return {};
    return {
        bits_, error(), reinterpret_cast<float*>(input_.data()), reach_.data(), next_reach_.data(),
        less_};
  }
  void Commit() override {
    if (bits_ == 0) return;
    std::swap(error_, input_);
    std::swap(reach_, next_reach_);
  }
  Status ReadError(uint64_t first, std::span<float> into) const override {
    return Copy(into.data(), error() + first, into.size_bytes(), cudaMemcpyDeviceToHost,
                "copy rounding errors from the device");
  }
  Status ReadReach(uint64_t first, std::span<BlockReach> into) const override {
    return Copy(into.data(), reach_.data() + first, into.size_bytes(), cudaMemcpyDeviceToHost,
                "copy the reach of blocks from the device");
  }
  Status WriteReach(uint64_t first, std::span<const BlockReach> from) override {
    return Copy(reach_.data() + first, from.data(), from.size_bytes(), cudaMemcpyHostToDevice,
                "copy the reach of blocks to the device");
  }

  const void* input() const override { return input_.data(); }
  void* output() override { return bits_ == 0 ? input_.data() : sum_.data(); }
  DataType type() const override { return type_; }
  uint64_t elements() const override { return elements_; }
  void* stream() const override { return stream_.get(); }

 private:
  const float* error() const { return reinterpret_cast<const float*>(error_.data()); }
  // Between host and device, behind what is on stream_. Waits.
  Status Copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
              const char* what) const {
    const DeviceScope scope(device_);
    RW_RETURN_IF_ERROR(scope.status());
    RW_RETURN_IF_ERROR(FromCuda(cudaMemcpyAsync(to, from, bytes, kind, stream_.get()), what));
    return FromCuda(cudaStreamSynchronize(stream_.get()), what);
  }
  // The device's table becomes `table`, behind what is on stream_: kernels that read the one before
  // are, or the trainer's streams that they are on are awaited there.
  Status Upload(cuda::PartTable table) {
    for (const cuda::PartView& part : table.parts) {
      RW_CHECK(part.flat + part.elements <= elements_);
    }
    const bool same = table.parts == table_.parts;
    table_ = std::move(table);
    if (same || table_.parts.empty()) return OkStatus();
    if (parts_.size() < table_.parts.size()) {
      RW_RETURN_IF_ERROR(FromCuda(cudaStreamSynchronize(stream_.get()), "grow a group's table"));
      parts_ = {};
      host_parts_ = {};
      RW_RETURN_IF_ERROR(parts_.Allocate(table_.parts.size(), stream_.get()));
      RW_RETURN_IF_ERROR(host_parts_.Allocate(table_.parts.size(), stream_.get()));
    }
    // The last copy has left pinned memory long ago, but for a step that was given up.
    RW_RETURN_IF_ERROR(FromCuda(cudaEventSynchronize(copied_.get()), "await a group's table"));
    const size_t bytes = table_.parts.size() * sizeof(cuda::PartView);
    std::memcpy(host_parts_.data(), table_.parts.data(), bytes);
    RW_RETURN_IF_ERROR(FromCuda(cudaMemcpyAsync(parts_.data(), host_parts_.data(), bytes,
                                                cudaMemcpyHostToDevice, stream_.get()),
                                "copy a group's table to the device"));
    return copied_.Record(stream_.get());
  }
  cuda::PartsView View(const cuda::StreamParts& of) const {
    return {parts_.data() + of.first, of.count, of.elements};
  }

  const int device_;
  const uint64_t elements_;
  const DataType type_;
  CudaStream stream_;
  DeviceBuffer<std::byte> input_;
  DeviceBuffer<float> owed_;  // empty until something is
  bool owes_ = false;
  int bits_ = 0;  // of codes; the rest is empty without
  BlockReach less_ = 0;
  DeviceBuffer<std::byte> error_, sum_;  // the next errors are in input_
  DeviceBuffer<BlockReach> reach_, next_reach_;
  DeviceBuffer<uint32_t> largest_;
  PinnedBuffer<uint32_t> host_largest_;
  cuda::PartTable table_;  // that parts_ holds
  DeviceBuffer<cuda::PartView> parts_;
  PinnedBuffer<cuda::PartView> host_parts_;
  CudaEvent copied_;  // host_parts_ may be written again
  CudaEvent order_;
  StreamMarks marks_;
};

}  // namespace

StatusOr<std::unique_ptr<DeviceBucket>> MakeDeviceBucket(int device, uint64_t elements,
                                                         DataType type) {
  RW_RETURN_IF_ERROR(CountDevices().status());
  auto bucket = std::make_unique<CudaBucket>(device, elements, type);
  RW_RETURN_IF_ERROR(bucket->Allocate());
  return std::unique_ptr<DeviceBucket>(std::move(bucket));
}

}  // namespace ringwood
