// What all kernels share: the shape of their blocks, and what their bodies ask of a thread.
//
// The body of a kernel is a template over the Thread that runs it: a CUDA thread (cuda_thread.h) or
// a fiber of the tests (tests/base/emulated_grid.h), so that one text is compiled for both. The
// includer defines RW_DEVICE, what stands before a function that runs there. Included by device and
// host code: nothing of CUDA in here.
#pragma once

#include <cstdint>

namespace ringwood::cuda {

constexpr uint32_t kWarp = 32;
constexpr uint32_t kThreads = 256;  // of a block
constexpr uint32_t kWarps = kThreads / kWarp;

struct alignas(16) Four {
  float at[4];
};

}  // namespace ringwood::cuda
