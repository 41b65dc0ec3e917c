// Starts the kernels of dense groups: pointers, counts and a stream in, CUDA's error out.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace ringwood::cuda {

// *digest (device memory) becomes WordDigest of `bytes` bytes at `data`, of any alignment.
cudaError_t LaunchWordDigest(const void* data, uint64_t bytes, uint64_t* digest,
                             cudaStream_t stream);

// out[i] = weight * in[i], and + owed[i] where that is not null; with weight 0 the product is 0 and
// `in` unread. *largest becomes at least the bits of
// every |out[i]|: as unsigned integers they order like the numbers, Inf and NaN above them.
cudaError_t LaunchScale(const float* in, float weight, const float* owed, float* out,
                        uint64_t count, uint32_t* largest, cudaStream_t stream);

// out[i] = sum[i] / total; zeros with total 0.
cudaError_t LaunchDivide(const float* sum, double total, float* out, uint64_t count,
                         cudaStream_t stream);

}  // namespace ringwood::cuda
