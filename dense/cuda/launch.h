// Starts the kernels of dense groups: pointers, counts and a stream in, CUDA's error out.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace ringwood::cuda {

// *digest (device memory) becomes WordDigest of `bytes` bytes at `data`, of any alignment.
cudaError_t LaunchWordDigest(const void* data, uint64_t bytes, uint64_t* digest,
                             cudaStream_t stream);

}  // namespace ringwood::cuda
