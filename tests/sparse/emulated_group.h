// A group of sparse tensors whose kernels run on an emulation of the device's threads, and the
// plain CPU's way beside which it is held.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <vector>

#define RW_DEVICE

#include "base/buffer.h"
#include "sparse/accumulate.h"
#include "sparse/cuda/accumulate_step.h"
#include "sparse/cuda/layout.h"
#include "sparse/cuda/refine_step.h"
#include "sparse/cuda/scatter_step.h"
#include "sparse/cuda/settle_step.h"
#include "sparse/select.h"
#include "tests/base/emulated_grid.h"
#include "tests/sparse/samples.h"

namespace ringwood {

using cuda::TensorShape;

// A group on the emulated device.
class EmulatedGroup {
 public:
  EmulatedGroup(const std::vector<TensorShape>& shapes, uint32_t blocks)
      : blocks_(blocks), layout_(*cuda::LayOut(shapes)) {
    const size_t tensors = shapes.size(), tiles = layout_.tile_tensor.size();
    for (cuda::TensorView& view : layout_.tensors) {
      for (int side = 0; side < 2; ++side) {
        view.residual[side] = NewBuffer(view.elements);
        view.momentum[side] = view.factor != 0 ? NewBuffer(view.elements) : nullptr;
      }
    }
    states_.resize(tensors);
    outcomes_.resize(tensors);
    gradients_.resize(tensors);
    for (auto* array : {&tile_first_, &tile_count_, &tile_larger_, &tile_ties_}) {
      array->resize(tiles, 0xdeadbeef);  // nothing may rely on what was there
    }
    block_larger_.resize(cuda::kRefineBlocks, 0xdeadbeef);
    block_ties_.resize(cuda::kRefineBlocks, 0xdeadbeef);
    histogram_.resize(tensors * cuda::kBins);
    near_key_.resize(tensors * cuda::kNear, 0xdeadbeef);
    near_tile_.resize(tensors * cuda::kNear, 0xdeadbeef);
    open_.resize(cuda::kRounds);
    candidate_index_.resize(layout_.candidates);
    candidate_value_.resize(layout_.candidates);
    pick_index_.resize(layout_.picks);
    pick_value_.resize(layout_.picks);
  }

  cuda::GroupView View() {
    cuda::GroupView view;
    view.tensors = layout_.tensors.data();
    view.gradients = gradients_.data();
    view.states = states_.data();
    view.outcomes = outcomes_.data();
    view.tensor_count = static_cast<uint32_t>(layout_.tensors.size());
    view.tiles = static_cast<uint32_t>(layout_.tile_tensor.size());
    view.present = present_;
    view.tile_tensor = layout_.tile_tensor.data();
    view.tile_first = tile_first_.data();
    view.tile_count = tile_count_.data();
    view.tile_larger = tile_larger_.data();
    view.tile_ties = tile_ties_.data();
    view.block_larger = block_larger_.data();
    view.block_ties = block_ties_.data();
    view.histogram = histogram_.data();
    view.near_key = near_key_.data();
    view.near_tile = near_tile_.data();
    view.open = open_.data();
    view.candidate_index = candidate_index_.data();
    view.candidate_value = candidate_value_.data();
    view.pick_index = pick_index_.data();
    view.pick_value = pick_value_.data();
    return view;
  }

  // The kernels only read them, until Scatter.
  void Step(const std::vector<const float*>& gradients, const cuda::Scale& scale) {
    Accumulate(gradients, scale);
    Refine();
  }

  void Accumulate(const std::vector<const float*>& gradients, const cuda::Scale& scale) {
    gradients_.clear();
    for (const float* gradient : gradients) gradients_.push_back(const_cast<float*>(gradient));
    const cuda::GroupView view = View();
    EmulatedGrid::RunEach(view.tiles,
                          [&, shared = cuda::AccumulateShared{}](EmulatedThread& thread) mutable {
                            cuda::AccumulateTile(thread, shared, view, scale);
                          });
  }

  void Refine() {
    const cuda::GroupView view = View();
    const uint32_t blocks = std::min(blocks_, view.tiles);
    std::vector<cuda::RefineShared> shared(blocks);
    EmulatedGrid::Run(blocks, [&](EmulatedThread& thread) {
      cuda::Refine(thread, shared[thread.block()], view);
    });
  }

  Entries Picks(size_t t) const {
    Entries picks;
    const uint32_t first = layout_.tensors[t].first_pick;
    for (uint32_t j = 0; j < outcomes_[t].picked; ++j) {
      picks.push_back(pick_index_[first + j], pick_value_[first + j]);
    }
    return picks;
  }

  void Commit(const std::vector<float>& sent, const std::vector<uint8_t>& accepted,
              bool masking = true) {
    for (uint32_t place = 0; place < layout_.picks; ++place) {
      cuda::SettlePick<EmulatedThread>(View(), sent.data(), accepted.data(), masking, place);
    }
    present_ = 1 - present_;
  }

  void Scatter(const Entries& sum, double total) {
    const cuda::GroupView view = View();
    const cuda::ResultView result{sum.index.data(), sum.value.data(),
                                  static_cast<uint32_t>(sum.size()), total};
    EmulatedGrid::RunEach(view.tiles,
                          [&, shared = cuda::ScatterShared{}](EmulatedThread& thread) mutable {
                            cuda::ScatterTile(thread, shared, view, result);
                          });
  }

  std::span<const float> Residual(size_t t) const {
    return {layout_.tensors[t].residual[present_], layout_.tensors[t].elements};
  }
  std::span<const float> Shadow(size_t t) const {
    return {layout_.tensors[t].residual[1 - present_], layout_.tensors[t].elements};
  }
  std::span<const float> Momentum(size_t t) const {
    return {layout_.tensors[t].momentum[present_], layout_.tensors[t].elements};
  }
  const cuda::TensorOutcome& outcome(size_t t) const { return outcomes_[t]; }
  const cuda::TensorState& state(size_t t) const { return states_[t]; }
  const cuda::Layout& layout() const { return layout_; }
  const std::vector<float>& pick_values() const { return pick_value_; }

 private:
  float* NewBuffer(uint64_t elements) {
    buffers_.push_back(Buffer<float>(elements));
    return buffers_.back().data();
  }

  const uint32_t blocks_;
  cuda::Layout layout_;
  uint32_t present_ = 0;
  std::vector<Buffer<float>> buffers_;
  std::vector<float*> gradients_;
  std::vector<cuda::TensorState> states_;
  std::vector<cuda::TensorOutcome> outcomes_;
  std::vector<uint32_t> tile_first_, tile_count_, tile_larger_, tile_ties_, histogram_;
  std::vector<uint32_t> block_larger_, block_ties_;
  std::vector<uint32_t> near_key_, near_tile_, open_;
  std::vector<uint32_t> candidate_index_, pick_index_;
  std::vector<float> candidate_value_, pick_value_;
};

inline bool SameBits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

// The plain CPU's way for one tensor, beside which the device's is held step by step.
struct Plain {
  explicit Plain(const TensorShape& shape)
      : k(shape.k),
        factor(shape.momentum),
        residual(shape.elements),
        shadow(shape.elements),
        momentum(factor != 0 ? shape.elements : 0),
        momentum_shadow(momentum.size()) {}

  Entries Step(const float* gradient, const cuda::Scale& scale) {
    TopK unused(residual.size(), std::max<uint64_t>(k, 1));
    AccumulatePlain({.elements = residual.size(),
                     .gradient = gradient,
                     .residual = residual.data(),
                     .shadow = shadow.data(),
                     .momentum = momentum.empty() ? nullptr : momentum.data(),
                     .momentum_shadow = momentum.empty() ? nullptr : momentum_shadow.data(),
                     .weight = scale.weight,
                     .decay = scale.decay,
                     .factor = factor},
                    &unused);
    return SelectPlain(shadow, k);
  }

  const uint64_t k;
  const float factor;
  std::vector<float> residual, shadow, momentum, momentum_shadow;
};

// Gradients of every magnitude in 2^-20..2^20, or of a pattern; offset to odd alignments.
inline std::vector<float> Gradient(uint64_t elements, int kind, uint64_t seed) {
  constexpr int kPatterns = static_cast<int>(Pattern::kCount);
  if (kind < kPatterns) return MakeGradient(static_cast<Pattern>(kind), elements, 0, seed);
  Random random(seed);
  std::vector<float> gradient(elements);
  for (float& value : gradient) {
    const double magnitude = std::exp2(random.Unit() * 40 - 20);
    value = static_cast<float>(random.Below(2) ? magnitude : -magnitude);
  }
  return gradient;
}
constexpr int kKinds = static_cast<int>(Pattern::kCount) + 1;

}  // namespace ringwood
