// A CUDA thread as the bodies of kernels see it (threads.h). Only for .cu files, which define
// RW_DEVICE as __device__ before they include it.
#pragma once

#include <cooperative_groups.h>

#include "base/cuda/threads.h"

namespace ringwood::cuda {

struct CudaThread {
  static constexpr unsigned kAllLanes = 0xffffffffu;

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
  RW_DEVICE uint32_t WarpMax(uint32_t value) { return __reduce_max_sync(kAllLanes, value); }
  RW_DEVICE uint32_t AtomicAdd(uint32_t* to, uint32_t value) { return atomicAdd(to, value); }
  RW_DEVICE void AtomicMax(uint32_t* to, uint32_t value) { atomicMax(to, value); }

  // The bits of |value|: as unsigned integers they order like the numbers, Inf and NaN above them.
  RW_DEVICE static uint32_t Key(float value) { return __float_as_uint(value) & 0x7fffffffu; }
  RW_DEVICE static uint32_t Word(float value) { return __float_as_uint(value); }
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

}  // namespace ringwood::cuda
