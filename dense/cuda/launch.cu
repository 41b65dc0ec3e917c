// Compiled with --fmad=false and without -ftz, so that products, sums and quotients are rounded one
// by one as on every CPU.
#include "dense/cuda/launch.h"

#define RW_DEVICE __device__

#include "base/cuda/cuda_thread.h"
#include "base/cuda/load_kernels.h"
#include "dense/cuda/digest_step.h"
#include "dense/cuda/lattice_step.h"
#include "dense/cuda/parts_step.h"
#include "dense/cuda/sum_step.h"

namespace ringwood::cuda {
namespace {

constexpr unsigned kMaxBlocks = 1024;  // enough to fill a device; each adds to one word of memory

__global__ void __launch_bounds__(kThreads)
    WordDigestKernel(const unsigned char* data, uint64_t bytes, unsigned long long* digest) {
  CudaThread thread;
  unsigned long long sum = DigestShare(thread, data, bytes);
  for (unsigned distance = 16; distance > 0; distance /= 2) {
    sum += __shfl_down_sync(0xffffffffu, sum, distance);
  }
  if (threadIdx.x % 32 == 0) atomicAdd(digest, sum);
}

template <typename Element>
__global__ void __launch_bounds__(kThreads)
    PackKernel(PartsView parts, PackPass<Element> pass, uint32_t* largest) {
  CudaThread thread;
  PackParts(thread, pass, parts, largest);
}

template <typename Element, typename Wide>
__global__ void __launch_bounds__(kThreads)
    UnpackKernel(PartsView parts, UnpackPass<Element, Wide> pass) {
  CudaThread thread;
  PassParts(thread, pass, parts);
}

template <typename Element>
__global__ void __launch_bounds__(kThreads) SumKernel(SumView view) {
  CudaThread thread;
  SumElements<Element>(thread, view);
}

__global__ void __launch_bounds__(kThreads) EncodeKernel(EncodeView view) {
  CudaThread thread;
  EncodePacks(thread, view);
}

__global__ void __launch_bounds__(kThreads) AddKernel(AddView view) {
  CudaThread thread;
  AddPacks(thread, view);
}

__global__ void __launch_bounds__(kThreads) DecodeKernel(DecodeView view) {
  CudaThread thread;
  DecodePacks(thread, view);
}

unsigned GridFor(uint64_t items, uint32_t of_a_block) {
  const uint64_t blocks = (items + of_a_block - 1) / of_a_block;
  return static_cast<unsigned>(blocks < kMaxBlocks ? blocks : kMaxBlocks);
}

template <typename Element>
void Pack(const PartsView& parts, float weight, const float* owed, void* flat, uint32_t* largest,
          cudaStream_t stream) {
  PackKernel<Element><<<GridFor(parts.elements, kPartTile), kThreads, 0, stream>>>(
      parts, PackPass<Element>{static_cast<Element*>(flat), weight, owed, 0}, largest);
}

template <typename Element, typename Wide>
void UnpackBy(Wide total, const PartsView& parts, const void* flat, cudaStream_t stream) {
  UnpackKernel<Element, Wide><<<GridFor(parts.elements, kPartTile), kThreads, 0, stream>>>(
      parts, UnpackPass<Element, Wide>{static_cast<const Element*>(flat), total, total == 0});
}

template <typename Element>
void Unpack(const PartsView& parts, const void* flat, double total, cudaStream_t stream) {
  const float narrow = static_cast<float>(total);
  if (static_cast<double>(narrow) == total) return UnpackBy<Element>(narrow, parts, flat, stream);
  UnpackBy<Element>(total, parts, flat, stream);
}

}  // namespace

cudaError_t LoadDenseKernels() {
  return LoadKernels(WordDigestKernel, PackKernel<float>, PackKernel<uint16_t>,
                     UnpackKernel<float, float>, UnpackKernel<float, double>,
                     UnpackKernel<uint16_t, float>, UnpackKernel<uint16_t, double>,
                     SumKernel<float>, SumKernel<uint16_t>, EncodeKernel, AddKernel, DecodeKernel);
}

cudaError_t LaunchPack(DataType type, const PartsView& parts, float weight, const float* owed,
                       void* flat, uint32_t* largest, cudaStream_t stream) {
  if (parts.elements == 0) return cudaSuccess;
  if (type == DataType::kBFloat16) {
    Pack<uint16_t>(parts, weight, owed, flat, largest, stream);
  } else {
    Pack<float>(parts, weight, owed, flat, largest, stream);
  }
  return cudaGetLastError();
}

cudaError_t LaunchUnpack(DataType type, const PartsView& parts, const void* flat, double total,
                         cudaStream_t stream) {
  if (parts.elements == 0) return cudaSuccess;
  if (type == DataType::kBFloat16) {
    Unpack<uint16_t>(parts, flat, total, stream);
  } else {
    Unpack<float>(parts, flat, total, stream);
  }
  return cudaGetLastError();
}

cudaError_t LaunchSum(const SumView& view, cudaStream_t stream) {
  if (view.elements == 0) return cudaSuccess;
  const unsigned blocks = GridFor(view.elements, kThreads);
  if (view.bfloat16) {
    SumKernel<uint16_t><<<blocks, kThreads, 0, stream>>>(view);
  } else {
    SumKernel<float><<<blocks, kThreads, 0, stream>>>(view);
  }
  return cudaGetLastError();
}

cudaError_t LaunchEncode(const EncodeView& view, cudaStream_t stream) {
  if (view.packs == 0) return cudaSuccess;
  EncodeKernel<<<GridFor(view.packs, kWarps), kThreads, 0, stream>>>(view);
  return cudaGetLastError();
}

cudaError_t LaunchAdd(const AddView& view, cudaStream_t stream) {
  if (view.packs == 0) return cudaSuccess;
  AddKernel<<<GridFor(view.packs, kWarps), kThreads, 0, stream>>>(view);
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
