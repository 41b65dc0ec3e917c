// The kernels: the steps' bodies on CUDA threads. Compiled with --fmad=false, so that products and
// sums are rounded one by one as on every CPU, and without -ftz: denormals keep their bits.
#include <cooperative_groups.h>

#include "sparse/cuda/launch.h"

#define RW_DEVICE __device__

#include "sparse/cuda/accumulate_step.h"
#include "sparse/cuda/refine_step.h"
#include "sparse/cuda/settle_step.h"

namespace ringwood::cuda {
namespace {

constexpr unsigned kAllLanes = 0xffffffffu;

// What the steps ask of a thread.
struct CudaThread {
  RW_DEVICE uint32_t block() const { return blockIdx.x; }
  RW_DEVICE uint32_t blocks() const { return gridDim.x; }
  RW_DEVICE uint32_t id() const { return threadIdx.x; }
  RW_DEVICE uint32_t lane() const { return threadIdx.x % kWarp; }
  RW_DEVICE uint32_t warp() const { return threadIdx.x / kWarp; }
  RW_DEVICE void Sync() { __syncthreads(); }
  RW_DEVICE void GridSync() { cooperative_groups::this_grid().sync(); }
  RW_DEVICE void Fence() { __threadfence(); }
  RW_DEVICE uint32_t Ballot(bool yes) { return __ballot_sync(kAllLanes, yes); }
  template <class Value>
  RW_DEVICE Value ShuffleUp(Value value, uint32_t distance) {
    return __shfl_up_sync(kAllLanes, value, distance);
  }
  template <class Value>
  RW_DEVICE Value Shuffle(Value value, uint32_t lane) {
    return __shfl_sync(kAllLanes, value, static_cast<int>(lane));
  }
  RW_DEVICE uint32_t AtomicAdd(uint32_t* to, uint32_t value) { return atomicAdd(to, value); }

  RW_DEVICE static uint32_t Key(float value) { return __float_as_uint(value) & 0x7fffffffu; }
  RW_DEVICE static float FromKey(uint32_t key) { return __uint_as_float(key); }
  RW_DEVICE static uint32_t Bits(uint32_t mask) { return static_cast<uint32_t>(__popc(mask)); }
  RW_DEVICE static uint32_t LoadFresh(const uint32_t* from) { return __ldcg(from); }
  // Read and written once: past the caches, whose room belongs to the trainer's kernels.
  RW_DEVICE static Four Load4(const float* from) {
    const float4 loaded = __ldcs(reinterpret_cast<const float4*>(from));
    return {{loaded.x, loaded.y, loaded.z, loaded.w}};
  }
  RW_DEVICE static void Store4(float* to, const Four& value) {
    __stcs(reinterpret_cast<float4*>(to),
           make_float4(value.at[0], value.at[1], value.at[2], value.at[3]));
  }
};

__global__ void __launch_bounds__(kThreads) AccumulateKernel(GroupView group, Scale scale) {
  __shared__ AccumulateShared shared;
  CudaThread thread;
  AccumulateTile(thread, shared, group, scale);
}

__global__ void __launch_bounds__(kThreads) RefineKernel(GroupView group) {
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

__global__ void __launch_bounds__(kThreads)
    ScatterKernel(float* const* places, const float* values, uint64_t count) {
  const uint64_t i = uint64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < count) *places[i] = values[i];
}

unsigned BlocksFor(uint64_t threads) {
  return static_cast<unsigned>((threads + kThreads - 1) / kThreads);
}

}  // namespace

cudaError_t LaunchAccumulate(const GroupView& group, const Scale& scale, cudaStream_t stream) {
  if (group.tiles == 0) return cudaSuccess;
  AccumulateKernel<<<group.tiles, kThreads, 0, stream>>>(group, scale);
  return cudaGetLastError();
}

cudaError_t RefineBlocks(uint32_t* blocks) {
  // More blocks than two a processor only make the meetings slower.
  constexpr int kMaxBlocksPerProcessor = 2;
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
  *blocks =
      static_cast<uint32_t>(processors) *
      static_cast<uint32_t>(resident < kMaxBlocksPerProcessor ? resident : kMaxBlocksPerProcessor);
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

cudaError_t LaunchScatter(float* const* places, const float* values, uint64_t count,
                          cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  ScatterKernel<<<BlocksFor(count), kThreads, 0, stream>>>(places, values, count);
  return cudaGetLastError();
}

}  // namespace ringwood::cuda
