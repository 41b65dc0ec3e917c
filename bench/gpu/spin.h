// A kernel that does nothing for a while: the trainer's computation, for the overlap benchmark.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace ringwood::cuda {

// `blocks` blocks are busy for `nanoseconds` of the device's clock.
cudaError_t LaunchSpin(unsigned blocks, uint64_t nanoseconds, cudaStream_t stream);

}  // namespace ringwood::cuda
