// CUDA's objects with an owner, and its errors as ours. Only for sources that are built with CUDA.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/loop.h"
#include "base/status.h"

namespace ringwood {

// "what: CUDA's text". A missing driver, device or kernel is Refused, lack of memory Exhausted.
// CUDA forgets the error: it keeps a thread's last one, and the next launch would answer it.
Status FromCuda(cudaError_t error, const std::string& what);

// Makes `device` the calling thread's current one for a scope. Afterwards a trainer's thread has
// its own one again. A loop's thread keeps `device`: it had chosen none, which CUDA reports as
// device 0, and to set device 0 would create a context there that nobody needs, some hundred MB.
class DeviceScope {
 public:
  explicit DeviceScope(int device) {
    status_ = FromCuda(cudaGetDevice(&before_), "find the current CUDA device");
    if (!status_.ok() || before_ == device) return;
    status_ = FromCuda(cudaSetDevice(device), "choose a CUDA device");
    changed_ = status_.ok();
  }
  ~DeviceScope() {
    if (changed_ && !Loop::OnAnyThread()) cudaSetDevice(before_);
  }
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;
  const Status& status() const { return status_; }

 private:
  int before_ = 0;
  bool changed_ = false;
  Status status_;
};

// kPinned: host memory that the device copies from and to.
enum class MemoryKind { kDevice, kPinned };

// `count` zeroed Ts.
template <typename T, MemoryKind kKind>
class CudaBuffer {
 public:
  CudaBuffer() = default;
  ~CudaBuffer() { Free(); }
  CudaBuffer(CudaBuffer&& other) noexcept { *this = std::move(other); }
  CudaBuffer& operator=(CudaBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(count_, other.count_);
    return *this;
  }

  // On the current device; once. Zeroes on `stream`, without waiting, where it is the device's.
  Status Allocate(size_t count, cudaStream_t stream) {
    RW_CHECK(data_ == nullptr);
    if (count == 0) return OkStatus();
    const size_t bytes = count * sizeof(T);
    void* memory = nullptr;
    const cudaError_t error =
        kKind == MemoryKind::kDevice ? cudaMalloc(&memory, bytes) : cudaMallocHost(&memory, bytes);
    const std::string what = "allocate " + std::to_string(bytes) + " bytes for CUDA";
    RW_RETURN_IF_ERROR(FromCuda(error, what));
    data_ = static_cast<T*>(memory);
    count_ = count;
    if (kKind == MemoryKind::kDevice)
      return FromCuda(cudaMemsetAsync(memory, 0, bytes, stream), what);
    std::memset(memory, 0, bytes);
    return OkStatus();
  }

  T* data() const { return data_; }
  size_t size() const { return count_; }
  std::span<T> span() const { return {data_, count_}; }

 private:
  void Free() {
    if (data_ == nullptr) return;
    if (kKind == MemoryKind::kDevice) {
      cudaFree(data_);
    } else {
      cudaFreeHost(data_);
    }
  }

  T* data_ = nullptr;
  size_t count_ = 0;
};
template <typename T>
using DeviceBuffer = CudaBuffer<T, MemoryKind::kDevice>;
template <typename T>
using PinnedBuffer = CudaBuffer<T, MemoryKind::kPinned>;

class CudaStream {
 public:
  CudaStream() = default;
  ~CudaStream() {
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  // Not ordered with the default stream. Of the highest priority: its kernels run before the
  // trainer's where both wait.
  Status Create() {
    int least = 0, greatest = 0;
    RW_RETURN_IF_ERROR(
        FromCuda(cudaDeviceGetStreamPriorityRange(&least, &greatest), "read stream priorities"));
    return FromCuda(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, greatest),
                    "create a CUDA stream");
  }
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

class CudaEvent {
 public:
  CudaEvent() = default;
  ~CudaEvent() {
    if (event_ != nullptr) cudaEventDestroy(event_);
  }
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  Status Create() {
    return FromCuda(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming),
                    "create a CUDA event");
  }
  Status CreateTimed() {
    return FromCuda(cudaEventCreate(&event_), "create a CUDA event with a time");
  }
  // Both were made with a time and have been reached; 0 where CUDA does not know.
  double SecondsSince(const CudaEvent& earlier) const {
    float milliseconds = 0;
    const cudaError_t error = cudaEventElapsedTime(&milliseconds, earlier.event_, event_);
    return FromCuda(error, "read a CUDA event's time").ok() ? milliseconds * 1e-3 : 0;
  }
  Status Record(cudaStream_t stream) {
    return FromCuda(cudaEventRecord(event_, stream), "record a CUDA event");
  }
  // What is put on `later` from here on runs after what was recorded. No host waits.
  Status Await(cudaStream_t later) {
    return FromCuda(cudaStreamWaitEvent(later, event_, 0), "order two CUDA streams");
  }
  Status Order(cudaStream_t earlier, cudaStream_t later) {
    RW_RETURN_IF_ERROR(Record(earlier));
    return Await(later);
  }
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace ringwood
