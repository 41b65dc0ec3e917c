// The streaming kernel's body: one block, one tile. Residual and momentum are updated as
// sparse/accumulate.h says, and values at or above the tensor's floor are appended to its list.
//
// Generic in the Thread that runs it (a CUDA thread in launch.cu, a fiber in the tests), so that
// one text is compiled for both. The includer defines RW_DEVICE, what stands before a function that
// runs there. Products and sums are rounded one by one: compile without contraction.
#pragma once

#include "sparse/cuda/scan.h"
#include "sparse/cuda/view.h"

namespace ringwood::cuda {

struct AccumulateShared {
  uint32_t segment[kVectors * kWarps];  // candidates of each vector of each warp, in index order
  uint32_t first;                       // where the tile's candidates go in the list
};

// Zeros where the gradient is not read.
template <class Thread>
RW_DEVICE Four LoadGradient(const float* gradient, bool read) {
  if (!read) return Four{{0, 0, 0, 0}};
  if (reinterpret_cast<uintptr_t>(gradient) % 16 == 0) return Thread::Load4(gradient);
  return Four{{gradient[0], gradient[1], gradient[2], gradient[3]}};
}

// The new residual at `at` and the next three elements; zero beyond the end.
template <class Thread>
RW_DEVICE Four Update(const GroupView& group, uint32_t t, const Scale& scale, uint64_t at) {
  const TensorView& tensor = group.tensors[t];
  Four value = {{0, 0, 0, 0}};
  if (at >= tensor.elements) return value;
  const bool corrected = tensor.momentum[0] != nullptr;
  const bool read = scale.weight != 0;
  const float* gradient = group.gradients[t] + at;
  const float* residual = tensor.residual[group.present] + at;
  float* shadow = tensor.residual[1 - group.present] + at;
  const float* momentum = corrected ? tensor.momentum[group.present] + at : nullptr;
  float* momentum_shadow = corrected ? tensor.momentum[1 - group.present] + at : nullptr;
  if (at + 4 > tensor.elements) {
    for (uint32_t c = 0; c < 4 && at + c < tensor.elements; ++c) {
      float x = scale.weight * (read ? gradient[c] : 0);
      if (corrected) x = momentum_shadow[c] = tensor.factor * momentum[c] + x;
      shadow[c] = value.at[c] = scale.decay * residual[c] + x;
    }
    return value;
  }
  const Four g = LoadGradient<Thread>(gradient, read);
  const Four e = Thread::Load4(residual);
  Four x;
  for (uint32_t c = 0; c < 4; ++c) x.at[c] = scale.weight * g.at[c];
  if (corrected) {
    const Four u = Thread::Load4(momentum);
    for (uint32_t c = 0; c < 4; ++c) x.at[c] = tensor.factor * u.at[c] + x.at[c];
    Thread::Store4(momentum_shadow, x);
  }
  for (uint32_t c = 0; c < 4; ++c) value.at[c] = scale.decay * e.at[c] + x.at[c];
  Thread::Store4(shadow, value);
  return value;
}

RW_DEVICE inline bool IsCandidate(uint32_t key, uint32_t floor) {
  return key >= floor && key < kNonFinite;
}

template <class Thread>
RW_DEVICE void AccumulateTile(Thread& thread, AccumulateShared& shared, const GroupView& group,
                              const Scale& scale) {
  const uint32_t tile = thread.block();
  const uint32_t t = group.tile_tensor[tile];
  const TensorView& tensor = group.tensors[t];
  TensorState& state = group.states[t];
  const uint32_t floor = state.floor;
  const uint64_t base = uint64_t{tile - tensor.first_tile} * kTileElements + thread.id() * 4;
  Four values[kVectors];
  uint32_t counts = 0;  // byte v: candidates of vector v; a warp has at most 128 of each
  uint32_t nonfinite = 0;
  for (uint32_t v = 0; v < kVectors; ++v) {
    values[v] = Update<Thread>(group, t, scale, base + v * kThreads * 4);
    for (uint32_t c = 0; c < 4; ++c) {
      const uint32_t key = Thread::Key(values[v].at[c]);
      nonfinite += key >= kNonFinite;
      counts += uint32_t{IsCandidate(key, floor)} << (8 * v);
    }
  }
  if (nonfinite != 0) thread.AtomicAdd(&state.nonfinite, nonfinite);

  // Where this thread's candidates stand: before it in its warp, then the segments before its own.
  const uint32_t through = WarpInclusive(thread, counts);
  if (thread.lane() == kWarp - 1) {
    for (uint32_t v = 0; v < kVectors; ++v) {
      shared.segment[v * kWarps + thread.warp()] = through >> (8 * v) & 255;
    }
  }
  thread.Sync();
  const uint32_t mine = thread.lane() < kVectors * kWarps ? shared.segment[thread.lane()] : 0;
  const uint32_t segments = WarpInclusive(thread, mine);
  const uint32_t total = thread.Shuffle(segments, kWarp - 1);
  if (thread.id() == 0) {
    shared.first = total == 0 ? 0 : thread.AtomicAdd(&state.candidates, total);
    group.tile_first[tile] = shared.first;
    group.tile_count[tile] = total;
  }
  thread.Sync();
  const uint64_t first = shared.first;
  const bool fits = first + total <= tensor.room;  // if not, refining reads the residual instead
  for (uint32_t v = 0; v < kVectors; ++v) {
    const uint32_t before = thread.Shuffle(segments - mine, v * kWarps + thread.warp());
    uint64_t to = tensor.first_candidate + first + before + ((through - counts) >> (8 * v) & 255);
    for (uint32_t c = 0; c < 4; ++c) {
      if (!fits || !IsCandidate(Thread::Key(values[v].at[c]), floor)) continue;
      group.candidate_index[to] = static_cast<uint32_t>(base + v * kThreads * 4 + c);
      group.candidate_value[to] = values[v].at[c];
      ++to;
    }
  }
}

}  // namespace ringwood::cuda
