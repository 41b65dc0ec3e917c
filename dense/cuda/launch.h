// Starts the kernels of dense groups: pointers, counts and a stream in, CUDA's error out.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "dense/cuda/lattice_view.h"
#include "dense/cuda/parts.h"
#include "dense/cuda/sum_view.h"
#include "transport/data_type.h"

namespace ringwood::cuda {

// Loads all kernels below onto the current device (base/cuda/load_kernels.h says why).
cudaError_t LoadDenseKernels();

// *digest (device memory) becomes WordDigest of `bytes` bytes at `data`, of any alignment.
cudaError_t LaunchWordDigest(const void* data, uint64_t bytes, uint64_t* digest,
                             cudaStream_t stream);

// All parts (their table is device memory) into `flat`, one launch, both of `type`, which is
// kFloat32 or kBFloat16: weight * part, and + owed where
// that is not null; with weight 0 the product is 0 and the parts are unread. *largest becomes at
// least the bits of every |packed value|: as unsigned integers they order like the numbers, Inf and
// NaN above them.
cudaError_t LaunchPack(DataType type, const PartsView& parts, float weight, const float* owed,
                       void* flat, uint32_t* largest, cudaStream_t stream);

// All parts from `flat`, likewise: flat / total; zeros with total 0.
cudaError_t LaunchUnpack(DataType type, const PartsView& parts, const void* flat, double total,
                         cudaStream_t stream);

// Plain sums (dense/cuda/sum_step.h).
cudaError_t LaunchSum(const SumView& view, cudaStream_t stream);

// The passes over codes (dense/cuda/lattice_step.h).
cudaError_t LaunchEncode(const EncodeView& view, cudaStream_t stream);
cudaError_t LaunchAdd(const AddView& view, cudaStream_t stream);
cudaError_t LaunchDecode(const DecodeView& view, cudaStream_t stream);

}  // namespace ringwood::cuda
