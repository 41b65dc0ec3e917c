// Starts the kernels: pointers, counts and a stream in, CUDA's error out. Nothing waits.
#pragma once

#include <cuda_runtime_api.h>

#include "sparse/cuda/view.h"

namespace ringwood::cuda {

// One pass over gradients, residuals and momenta; candidates into the lists.
cudaError_t LaunchAccumulate(const GroupView& group, const Scale& scale, cudaStream_t stream);

// Loads all kernels of a group onto the current device (base/cuda/load_kernels.h says why).
cudaError_t LoadGroupKernels();

// Blocks of the refining kernel that run at once on the current device.
cudaError_t RefineBlocks(uint32_t* blocks);

// Picks and outcomes of what LaunchAccumulate left; `blocks` from RefineBlocks.
cudaError_t LaunchRefine(const GroupView& group, uint32_t blocks, cudaStream_t stream);

// Accepted picks leave the shadow; `places` is the length of the pick arrays.
cudaError_t LaunchSettle(const GroupView& group, const float* sent, const uint8_t* accepted,
                         bool masking, uint32_t places, cudaStream_t stream);

// The gradients of all tensors become the averages of `result`, whose arrays are device memory.
cudaError_t LaunchScatter(const GroupView& group, const ResultView& result, cudaStream_t stream);

}  // namespace ringwood::cuda
