// What the kernels see of the tensors of one group: plain memory on the device, no ownership.
//
// A tensor is cut into tiles of kTileElements; tiles are numbered through the group. Arrays "a
// tile" and "a tensor" have one element for each. Included by device and host code: nothing of CUDA
// in here.
#pragma once

#include <cstdint>

#include "base/cuda/threads.h"

namespace ringwood::cuda {

constexpr uint32_t kVectors = 4;                             // of 4 floats, a thread and tile
constexpr uint32_t kTileElements = kThreads * kVectors * 4;  // 4096
constexpr uint32_t kBins = 2048;                             // of a tensor's histogram
constexpr uint32_t kRounds = 4;                              // of histograms, at most
constexpr uint32_t kNear = 2048;  // keys of the threshold's bin that one block settles by itself
constexpr uint32_t kRefineBlocks = 1024;  // of the refining kernel, at most

constexpr uint32_t kNonFinite = 0x7f800000u;  // the key of Inf (sparse/key.h); NaNs are above

static_assert(kVectors * kWarps <= kWarp);  // a warp scans the counts of all vectors of all warps

// One tensor. The two residuals (and momenta) take turns: `present` of the view is the real one.
struct TensorView {
  uint64_t elements = 0;
  uint64_t first = 0;                       // among the elements of the group
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
  uint32_t reach = 0;           // keys from the floor to twice as far as that threshold was
  uint32_t candidates = 0;
  uint32_t nonfinite = 0;
  uint32_t arrived = 0;  // tiles whose blocks have finished the phase
  uint32_t dense = 0;
  uint32_t settled = 0;  // 1: everything is picked, there is no threshold to find
  uint32_t cut = 0;      // the key of the last pick is this at least
  uint32_t end = 0;      // and below this: cut + 1 when it is known
  uint32_t need = 0;     // picks among the keys from `cut` to `end`
  uint32_t open = 0;     // 1: another histogram, of these keys
  uint32_t near = 0;     // how many of them are in the list for one block
  uint32_t picked = 0;
};

struct GroupView {
  const TensorView* tensors = nullptr;
  float* const* gradients = nullptr;  // a tensor; aligned to 4 bytes
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
  uint32_t* block_larger = nullptr;       // a refining block: the same sums, of those of its tiles
  uint32_t* block_ties = nullptr;         // that are the last tensor's
  uint32_t* histogram = nullptr;          // kBins a tensor, zero between the phases
  uint32_t* near_key = nullptr;           // kNear a tensor
  uint32_t* near_tile = nullptr;          // and where they are
  uint32_t* open = nullptr;               // a round: tensors that need another; zero between steps
  uint32_t* candidate_index = nullptr;    // in the tensor; a tile's candidates in index order
  float* candidate_value = nullptr;
  uint32_t* pick_index = nullptr;  // in the tensor, rising
  float* pick_value = nullptr;
};

// The sum over all ranks, in the group's coordinates; rising indices.
struct ResultView {
  const uint32_t* index = nullptr;
  const float* value = nullptr;
  uint32_t count = 0;
  double total = 1;  // weight; with 0 all averages are 0
};

// With weight 0 the gradient is not read and counts as zeros.
// u' = factor·u + weight·g, e' = decay·e + u' (or weight·g); sparse/accumulate.h.
struct Scale {
  float weight = 1;
  float decay = 1;
};

}  // namespace ringwood::cuda
