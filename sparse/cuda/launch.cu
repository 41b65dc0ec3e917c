// The kernels: the steps' bodies on CUDA threads. Compiled with --fmad=false, so that products and
// sums are rounded one by one as on every CPU, and without -ftz: denormals keep their bits.
#include "sparse/cuda/launch.h"

#define RW_DEVICE __device__

#include "base/cuda/cuda_thread.h"
#include "base/cuda/load_kernels.h"
#include "sparse/cuda/accumulate_step.h"
#include "sparse/cuda/refine_step.h"
#include "sparse/cuda/scatter_step.h"
#include "sparse/cuda/settle_step.h"

namespace ringwood::cuda {
namespace {

// Kernels that read much wait for memory: the more of their warps, the less. 64 registers a thread
// leave room for so many blocks.
constexpr int kResidentPerProcessor = 4;
// All blocks of the refining kernel have to run at once, beside what holds a processor for long:
// NCCL's kernel, until the network is done. One fewer each, and they fit into the others.
constexpr int kRefinePerProcessor = kResidentPerProcessor - 1;

__global__ void __launch_bounds__(kThreads, kResidentPerProcessor)
    AccumulateKernel(GroupView group, Scale scale) {
  __shared__ AccumulateShared shared;
  CudaThread thread;
  AccumulateTile(thread, shared, group, scale);
}

__global__ void __launch_bounds__(kThreads, kResidentPerProcessor) RefineKernel(GroupView group) {
  __shared__ RefineShared shared;
  CudaThread thread;
  Refine(thread, shared, group);
}

__global__ void __launch_bounds__(kThreads)
    SettleKernel(GroupView group, const float* sent, const uint8_t* accepted, bool masking,
                 uint32_t places) {
  const uint64_t place = uint64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (place < places) {
    SettlePick<CudaThread>(group, sent, accepted, masking, static_cast<uint32_t>(place));
  }
}

__global__ void __launch_bounds__(kThreads) ScatterKernel(GroupView group, ResultView result) {
  __shared__ ScatterShared shared;
  CudaThread thread;
  ScatterTile(thread, shared, group, result);
}

unsigned BlocksFor(uint64_t threads) {
  return static_cast<unsigned>((threads + kThreads - 1) / kThreads);
}

}  // namespace

cudaError_t LoadGroupKernels() {
  return LoadKernels(AccumulateKernel, RefineKernel, SettleKernel, ScatterKernel);
}

cudaError_t LaunchAccumulate(const GroupView& group, const Scale& scale, cudaStream_t stream) {
  if (group.tiles == 0) return cudaSuccess;
  AccumulateKernel<<<group.tiles, kThreads, 0, stream>>>(group, scale);
  return cudaGetLastError();
}

cudaError_t RefineBlocks(uint32_t* blocks) {
  int device = 0, processors = 0, resident = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) {
    error = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  }
  if (error == cudaSuccess) {
    error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, RefineKernel, kThreads, 0);
  }
  if (error != cudaSuccess) return error;
  if (resident < 1) return cudaErrorCooperativeLaunchTooLarge;
  const int spared = resident > 1 ? resident - 1 : 1;
  const auto all = static_cast<uint32_t>(
      processors * (spared < kRefinePerProcessor ? spared : kRefinePerProcessor));
  *blocks = all < kRefineBlocks ? all : kRefineBlocks;
  return cudaSuccess;
}

cudaError_t LaunchRefine(const GroupView& group, uint32_t blocks, cudaStream_t stream) {
  if (group.tiles == 0) return cudaSuccess;
  GroupView argument = group;
  void* arguments[] = {&argument};
  const uint32_t useful = blocks < group.tiles ? blocks : group.tiles;
  return cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(&RefineKernel), dim3(useful),
                                     dim3(kThreads), arguments, 0, stream);
}

cudaError_t LaunchSettle(const GroupView& group, const float* sent, const uint8_t* accepted,
                         bool masking, uint32_t places, cudaStream_t stream) {
  if (places == 0) return cudaSuccess;
  SettleKernel<<<BlocksFor(places), kThreads, 0, stream>>>(group, sent, accepted, masking, places);
  return cudaGetLastError();
}

cudaError_t LaunchScatter(const GroupView& group, const ResultView& result, cudaStream_t stream) {
  if (group.tiles == 0) return cudaSuccess;
  ScatterKernel<<<group.tiles, kThreads, 0, stream>>>(group, result);
  return cudaGetLastError();
}

}  // namespace ringwood::cuda
