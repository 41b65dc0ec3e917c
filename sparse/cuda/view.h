// What the kernels see of the tensors of one group: plain memory on the device, no ownership.
//
// A tensor is cut into tiles of kTileElements; tiles are numbered through the group. Arrays "a
// tile" and "a tensor" have one element for each. Included by device and host code: nothing of ours
// and nothing of CUDA in here.
#pragma once

#include <cstdint>

namespace ringwood::cuda {

constexpr uint32_t kWarp = 32;
constexpr uint32_t kThreads = 256;  // of a block
constexpr uint32_t kWarps = kThreads / kWarp;
constexpr uint32_t kVectors = 4;                             // of 4 floats, a thread and tile
constexpr uint32_t kTileElements = kThreads * kVectors * 4;  // 4096
constexpr uint32_t kBins = 2048;                             // of a tensor's histogram
constexpr uint32_t kLevels = 3;                              // 11, 10 and 10 bits of the key

constexpr uint32_t kNonFinite = 0x7f800000u;  // the key of Inf (sparse/key.h); NaNs are above

static_assert(kVectors * kWarps <= kWarp);  // a warp scans the counts of all vectors of all warps

struct alignas(16) Four {
  float at[4];
};

// One tensor. The two residuals (and momenta) take turns: `present` of the view is the real one.
struct TensorView {
  uint64_t elements = 0;
  float* residual[2] = {nullptr, nullptr};  // aligned to 16 bytes
  float* momentum[2] = {nullptr, nullptr};  // null: off
  float factor = 0;                         // of the momentum
  uint32_t k = 0;
  uint32_t first_tile = 0;
  uint32_t tiles = 0;
  uint32_t first_candidate = 0;  // its part of the candidate arrays
  uint32_t room = 0;             // and how long that is
  uint32_t first_pick = 0;       // its part of the pick arrays, k long
};

// What a step leaves of one tensor; copied to the host.
struct TensorOutcome {
  uint32_t picked = 0;
  uint32_t nonfinite = 0;
  uint32_t candidates = 0;  // at or above the floor; above `room`: the list was not complete
  uint32_t dense = 0;       // 1: selected from the whole residual, because the guess was bad
};

// One tensor's selection. Floor and guess live from step to step, the rest within one.
struct TensorState {
  uint32_t floor = kNonFinite;  // keys below are no candidates; >= 1. At first none is
  float guess = 0.9f;           // share of the last threshold at which candidates begin
  uint32_t candidates = 0;
  uint32_t nonfinite = 0;
  uint32_t arrived = 0;  // tiles whose blocks have finished the phase
  uint32_t dense = 0;
  uint32_t settled = 0;  // 1: everything is picked, there is no threshold to find
  uint32_t cut = 0;      // the key of the last pick, as far as its bits are known
  uint32_t need = 0;     // picks among those that agree with `cut` in the known bits
  uint32_t picked = 0;
};

struct GroupView {
  const TensorView* tensors = nullptr;
  const float* const* gradients = nullptr;  // a tensor; aligned to 4 bytes
  TensorState* states = nullptr;
  TensorOutcome* outcomes = nullptr;
  uint32_t tensor_count = 0;
  uint32_t tiles = 0;
  uint32_t present = 0;
  const uint32_t* tile_tensor = nullptr;  // a tile: the tensor it belongs to
  uint32_t* tile_first = nullptr;         // a tile: where its candidates begin
  uint32_t* tile_count = nullptr;         // and how many they are
  uint32_t* tile_larger = nullptr;        // a tile: keys above the cut; later where its picks go
  uint32_t* tile_ties = nullptr;          // a tile: keys equal to it; later those in tiles before
  uint32_t* histogram = nullptr;          // kBins a tensor, zero between the phases
  uint32_t* candidate_index = nullptr;    // in the tensor; a tile's candidates in index order
  float* candidate_value = nullptr;
  uint32_t* pick_index = nullptr;  // in the tensor, rising
  float* pick_value = nullptr;
};

// With weight 0 the gradient is not read and counts as zeros.
// u' = factor·u + weight·g, e' = decay·e + u' (or weight·g); sparse/accumulate.h.
struct Scale {
  float weight = 1;
  float decay = 1;
};

}  // namespace ringwood::cuda
