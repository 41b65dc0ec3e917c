// The streaming kernel's body: one block, one tile. Residual and momentum are updated as
// sparse/accumulate.h says, and values at or above the tensor's floor are appended to its list.
//
// Generic in the Thread (base/cuda/threads.h). Products and sums are rounded one by one: compile
// without contraction.
#pragma once

#include "base/cuda/scan.h"
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

// What a new residual is made of: one vector of a thread.
struct Sources {
  Four gradient, residual, momentum;
};

// The four elements from `at` on, which are all there.
template <class Thread>
RW_DEVICE Sources Load(const GroupView& group, uint32_t t, const Scale& scale, uint64_t at) {
  const TensorView& tensor = group.tensors[t];
  Sources from;
  from.gradient = LoadGradient<Thread>(group.gradients[t] + at, scale.weight != 0);
  from.residual = Thread::Load4(tensor.residual[group.present] + at);
  if (tensor.momentum[0] != nullptr) {
    from.momentum = Thread::Load4(tensor.momentum[group.present] + at);
  }
  return from;
}

template <class Thread>
RW_DEVICE Four Update(const GroupView& group, uint32_t t, const Scale& scale, uint64_t at,
                      const Sources& from) {
  const TensorView& tensor = group.tensors[t];
  Four x, value;
  for (uint32_t c = 0; c < 4; ++c) x.at[c] = scale.weight * from.gradient.at[c];
  if (tensor.momentum[0] != nullptr) {
    for (uint32_t c = 0; c < 4; ++c) x.at[c] = tensor.factor * from.momentum.at[c] + x.at[c];
    Thread::Store4(tensor.momentum[1 - group.present] + at, x);
  }
  for (uint32_t c = 0; c < 4; ++c) {
    value.at[c] = scale.decay * from.residual.at[c] + x.at[c];
  }
  Thread::Store4(tensor.residual[1 - group.present] + at, value);
  return value;
}

// Fewer than four elements, the tensor's last ones; zeros behind them.
template <class Thread>
RW_DEVICE Four UpdateEnd(const GroupView& group, uint32_t t, const Scale& scale, uint64_t at) {
  const TensorView& tensor = group.tensors[t];
  Four value = {{0, 0, 0, 0}};
  for (uint32_t c = 0; c < 4 && at + c < tensor.elements; ++c) {
    float x = scale.weight * (scale.weight != 0 ? group.gradients[t][at + c] : 0);
    if (tensor.momentum[0] != nullptr) {
      x = tensor.factor * tensor.momentum[group.present][at + c] + x;
      tensor.momentum[1 - group.present][at + c] = x;
    }
    value.at[c] = scale.decay * tensor.residual[group.present][at + c] + x;
    tensor.residual[1 - group.present][at + c] = value.at[c];
  }
  return value;
}

// A thread's new residuals of a tile. All of its loads are on their way before the first store,
// behind which the compiler could not move them: the memory might be the same.
template <class Thread>
RW_DEVICE void UpdateTile(const GroupView& group, uint32_t t, const Scale& scale, uint64_t base,
                          Four (&values)[kVectors]) {
  const uint64_t elements = group.tensors[t].elements;
  Sources from[kVectors];
  for (uint32_t v = 0; v < kVectors; ++v) {
    const uint64_t at = base + v * kThreads * 4;
    if (at + 4 <= elements) from[v] = Load<Thread>(group, t, scale, at);
  }
  for (uint32_t v = 0; v < kVectors; ++v) {
    const uint64_t at = base + v * kThreads * 4;
    values[v] = at + 4 <= elements ? Update<Thread>(group, t, scale, at, from[v])
                                   : UpdateEnd<Thread>(group, t, scale, at);
  }
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
  UpdateTile<Thread>(group, t, scale, base, values);
  uint32_t counts = 0;  // byte v: candidates of vector v; a warp has at most 128 of each
  uint32_t nonfinite = 0;
  for (uint32_t v = 0; v < kVectors; ++v) {
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
