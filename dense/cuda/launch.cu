// Compiled with --fmad=false and without -ftz, so that products, sums and quotients are rounded one
// by one as on every CPU.
#include "dense/cuda/launch.h"
#include "dense/cuda/word_digest.h"

#define RW_DEVICE __device__

#include "base/cuda/cuda_thread.h"
#include "dense/cuda/lattice_step.h"
#include "dense/cuda/parts_step.h"

namespace ringwood::cuda {
namespace {

constexpr unsigned kMaxBlocks = 1024;  // enough to fill a device; each adds to one word of memory

constexpr uint32_t kDigestReads = 4;  // of 16 bytes, a thread under way

// The word at `place`: one load where the array allows it, else byte by byte.
__device__ uint32_t WordAt(const unsigned char* data, uint64_t bytes, uint64_t place, bool whole) {
  const uint64_t at = place * 4;
  if (whole && at + 4 <= bytes) return *reinterpret_cast<const uint32_t*>(data + at);
  uint32_t word = 0;
  for (unsigned b = 0; b < 4 && at + b < bytes; ++b) word |= uint32_t{data[at + b]} << (8 * b);
  return word;
}

__device__ uint64_t MixFour(const uint4& words, uint64_t first) {
  return MixWord(words.x, first) + MixWord(words.y, first + 1) + MixWord(words.z, first + 2) +
         MixWord(words.w, first + 3);
}

__global__ void __launch_bounds__(kThreads)
    WordDigestKernel(const unsigned char* data, uint64_t bytes, unsigned long long* digest) {
  const uint64_t words = (bytes + 3) / 4;
  const uint64_t fours = reinterpret_cast<uintptr_t>(data) % 16 == 0 ? bytes / 16 : 0;
  const bool whole = reinterpret_cast<uintptr_t>(data) % 4 == 0;
  const uint64_t stride = uint64_t{gridDim.x} * kThreads;
  const uint64_t thread = uint64_t{blockIdx.x} * kThreads + threadIdx.x;
  unsigned long long sum = 0;
  for (uint64_t i = thread; i < fours; i += kDigestReads * stride) {
    uint4 read[kDigestReads];
    for (uint32_t r = 0; r < kDigestReads; ++r) {
      const uint64_t at = i + r * stride;
      if (at < fours) read[r] = __ldcs(reinterpret_cast<const uint4*>(data) + at);
    }
    for (uint32_t r = 0; r < kDigestReads; ++r) {
      const uint64_t at = i + r * stride;
      if (at < fours) sum += MixFour(read[r], 4 * at);
    }
  }
  for (uint64_t i = 4 * fours + thread; i < words; i += stride) {
    sum += MixWord(WordAt(data, bytes, i, whole), i);
  }
  for (unsigned distance = 16; distance > 0; distance /= 2) {
    sum += __shfl_down_sync(0xffffffffu, sum, distance);
  }
  if (threadIdx.x % 32 == 0) atomicAdd(digest, sum);
}

__global__ void __launch_bounds__(kThreads)
    PackKernel(PartsView parts, PackPass pass, uint32_t* largest) {
  CudaThread thread;
  PackParts(thread, pass, parts, largest);
}

template <typename Wide>
__global__ void __launch_bounds__(kThreads) UnpackKernel(PartsView parts, UnpackPass<Wide> pass) {
  CudaThread thread;
  PassParts(thread, pass, parts);
}

__global__ void __launch_bounds__(kThreads) EncodeKernel(EncodeView view) {
  CudaThread thread;
  EncodeParts(thread, view);
}

__global__ void __launch_bounds__(kThreads) AddKernel(AddView view) {
  CudaThread thread;
  AddParts(thread, view);
}

__global__ void __launch_bounds__(kThreads) DecodeKernel(DecodeView view) {
  CudaThread thread;
  DecodeParts(thread, view);
}

unsigned GridFor(uint64_t items, uint32_t of_a_block) {
  const uint64_t blocks = (items + of_a_block - 1) / of_a_block;
  return static_cast<unsigned>(blocks < kMaxBlocks ? blocks : kMaxBlocks);
}

template <typename Wide>
cudaError_t Unpack(const PartsView& parts, const float* flat, Wide total, cudaStream_t stream) {
  UnpackKernel<Wide><<<GridFor(parts.elements, kPartTile), kThreads, 0, stream>>>(
      parts, UnpackPass<Wide>{flat, total, total == 0});
  return cudaGetLastError();
}

}  // namespace

cudaError_t LaunchPack(const PartsView& parts, float weight, const float* owed, float* flat,
                       uint32_t* largest, cudaStream_t stream) {
  if (parts.elements == 0) return cudaSuccess;
  PackKernel<<<GridFor(parts.elements, kPartTile), kThreads, 0, stream>>>(
      parts, PackPass{flat, weight, owed, 0}, largest);
  return cudaGetLastError();
}

cudaError_t LaunchUnpack(const PartsView& parts, const float* flat, double total,
                         cudaStream_t stream) {
  if (parts.elements == 0) return cudaSuccess;
  const float narrow = static_cast<float>(total);
  if (static_cast<double>(narrow) == total) return Unpack(parts, flat, narrow, stream);
  return Unpack(parts, flat, total, stream);
}

cudaError_t LaunchEncode(const EncodeView& view, cudaStream_t stream) {
  if (view.blocks == 0) return cudaSuccess;
  EncodeKernel<<<GridFor(view.blocks / kPackBlocks, kWarps), kThreads, 0, stream>>>(view);
  return cudaGetLastError();
}

cudaError_t LaunchAdd(const AddView& view, cudaStream_t stream) {
  if (view.codes.part == 0) return cudaSuccess;
  AddKernel<<<GridFor(view.codes.part / kPackBlocks, kWarps), kThreads, 0, stream>>>(view);
  return cudaGetLastError();
}

cudaError_t LaunchDecode(const DecodeView& view, cudaStream_t stream) {
  if (view.elements == 0) return cudaSuccess;
  DecodeKernel<<<GridFor(LatticePacks(view.elements), kWarps), kThreads, 0, stream>>>(view);
  return cudaGetLastError();
}

cudaError_t LaunchWordDigest(const void* data, uint64_t bytes, uint64_t* digest,
                             cudaStream_t stream) {
  static_assert(sizeof(unsigned long long) == sizeof(uint64_t));
  const cudaError_t cleared = cudaMemsetAsync(digest, 0, sizeof(*digest), stream);
  if (cleared != cudaSuccess || bytes == 0) return cleared;
  WordDigestKernel<<<GridFor((bytes + 3) / 4, kThreads), kThreads, 0, stream>>>(
      static_cast<const unsigned char*>(data), bytes,
      reinterpret_cast<unsigned long long*>(digest));
  return cudaGetLastError();
}

}  // namespace ringwood::cuda
