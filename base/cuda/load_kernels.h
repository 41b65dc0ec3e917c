// Loads kernels before they are needed. Only for sources that nvcc compiles.
#pragma once

#include <cuda_runtime_api.h>

namespace ringwood {

// Onto the current device. Otherwise CUDA loads a kernel when it is first started, and waits for
// all that runs on the device then (an all-reduce, for as long as the network takes); every other
// thread of the process that calls CUDA waits as well.
template <typename... Kernels>
cudaError_t LoadKernels(Kernels*... kernels) {
  cudaFuncAttributes unused;
  cudaError_t error = cudaSuccess;
  for (const void* kernel : {reinterpret_cast<const void*>(kernels)...}) {
    if (error == cudaSuccess) error = cudaFuncGetAttributes(&unused, kernel);
  }
  return error;
}

}  // namespace ringwood
