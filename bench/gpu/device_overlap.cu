#include "bench/gpu/spin.h"

namespace ringwood::cuda {
namespace {

__device__ uint64_t Nanoseconds() {
  uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

__global__ void SpinKernel(uint64_t nanoseconds) {
  const uint64_t begin = Nanoseconds();
  while (Nanoseconds() - begin < nanoseconds) {
  }
}

}  // namespace

cudaError_t LaunchSpin(unsigned blocks, uint64_t nanoseconds, cudaStream_t stream) {
  SpinKernel<<<blocks, 32, 0, stream>>>(nanoseconds);
  return cudaGetLastError();
}

}  // namespace ringwood::cuda
