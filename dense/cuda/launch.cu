#include "dense/cuda/launch.h"
#include "dense/cuda/word_digest.h"

namespace ringwood::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kMaxBlocks = 1024;  // enough to fill a device; each adds to one word of memory

// The word at `place`: one load where the array allows it, else byte by byte.
__device__ uint32_t WordAt(const unsigned char* data, uint64_t bytes, uint64_t place, bool whole) {
  const uint64_t at = place * 4;
  if (whole && at + 4 <= bytes) return *reinterpret_cast<const uint32_t*>(data + at);
  uint32_t word = 0;
  for (unsigned b = 0; b < 4 && at + b < bytes; ++b) word |= uint32_t{data[at + b]} << (8 * b);
  return word;
}

__global__ void __launch_bounds__(kThreads)
    WordDigestKernel(const unsigned char* data, uint64_t bytes, unsigned long long* digest) {
  const uint64_t words = (bytes + 3) / 4;
  const bool whole = reinterpret_cast<uintptr_t>(data) % 4 == 0;
  unsigned long long sum = 0;
  const uint64_t stride = uint64_t{gridDim.x} * kThreads;
  for (uint64_t i = uint64_t{blockIdx.x} * kThreads + threadIdx.x; i < words; i += stride) {
    sum += MixWord(WordAt(data, bytes, i, whole), i);
  }
  for (unsigned distance = 16; distance > 0; distance /= 2) {
    sum += __shfl_down_sync(0xffffffffu, sum, distance);
  }
  if (threadIdx.x % 32 == 0) atomicAdd(digest, sum);
}

__global__ void __launch_bounds__(kThreads)
    ScaleKernel(const float* in, float weight, const float* owed, float* out, uint64_t count,
                uint32_t* largest) {
  unsigned mine = 0;
  const uint64_t stride = uint64_t{gridDim.x} * kThreads;
  for (uint64_t i = uint64_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += stride) {
    float value = weight == 0 ? 0 : weight * in[i];
    if (owed != nullptr) value += owed[i];
    out[i] = value;
    mine = max(mine, __float_as_uint(value) & 0x7fffffffu);
  }
  mine = __reduce_max_sync(0xffffffffu, mine);
  if (threadIdx.x % 32 == 0) atomicMax(largest, mine);
}

// In double where the divisor is no float: the quotient is then rounded twice, as on the CPU.
template <typename Wide>
__global__ void __launch_bounds__(kThreads)
    DivideKernel(const float* sum, Wide total, float* out, uint64_t count) {
  const uint64_t stride = uint64_t{gridDim.x} * kThreads;
  for (uint64_t i = uint64_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += stride) {
    out[i] = static_cast<float>(static_cast<Wide>(sum[i]) / total);
  }
}

unsigned GridFor(uint64_t items) {
  const uint64_t blocks = (items + kThreads - 1) / kThreads;
  return static_cast<unsigned>(blocks < kMaxBlocks ? blocks : kMaxBlocks);
}

}  // namespace

cudaError_t LaunchScale(const float* in, float weight, const float* owed, float* out,
                        uint64_t count, uint32_t* largest, cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  if (weight == 0 && owed == nullptr) return cudaMemsetAsync(out, 0, count * sizeof(float), stream);
  ScaleKernel<<<GridFor(count), kThreads, 0, stream>>>(in, weight, owed, out, count, largest);
  return cudaGetLastError();
}

cudaError_t LaunchDivide(const float* sum, double total, float* out, uint64_t count,
                         cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  if (total == 0) return cudaMemsetAsync(out, 0, count * sizeof(float), stream);
  const float narrow = static_cast<float>(total);
  if (static_cast<double>(narrow) == total) {
    DivideKernel<<<GridFor(count), kThreads, 0, stream>>>(sum, narrow, out, count);
  } else {
    DivideKernel<<<GridFor(count), kThreads, 0, stream>>>(sum, total, out, count);
  }
  return cudaGetLastError();
}

cudaError_t LaunchWordDigest(const void* data, uint64_t bytes, uint64_t* digest,
                             cudaStream_t stream) {
  static_assert(sizeof(unsigned long long) == sizeof(uint64_t));
  const cudaError_t cleared = cudaMemsetAsync(digest, 0, sizeof(*digest), stream);
  if (cleared != cudaSuccess || bytes == 0) return cleared;
  const uint64_t blocks = (bytes / 4 + kThreads) / kThreads;
  const auto grid = static_cast<unsigned>(blocks < kMaxBlocks ? blocks : kMaxBlocks);
  WordDigestKernel<<<grid, kThreads, 0, stream>>>(static_cast<const unsigned char*>(data), bytes,
                                                  reinterpret_cast<unsigned long long*>(digest));
  return cudaGetLastError();
}

}  // namespace ringwood::cuda
