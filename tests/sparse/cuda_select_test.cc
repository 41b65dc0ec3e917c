// The bodies of the device's kernels, run by an emulation of its threads, against the CPU's plain
// selection: the same picks and the same residuals to the bit.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#define RW_DEVICE

#include "base/buffer.h"
#include "sparse/accumulate.h"
#include "sparse/cuda/accumulate_step.h"
#include "sparse/cuda/layout.h"
#include "sparse/cuda/refine_step.h"
#include "sparse/cuda/settle_step.h"
#include "sparse/select.h"
#include "tests/sparse/emulated_grid.h"
#include "tests/sparse/samples.h"

namespace ringwood {
namespace {

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
    histogram_.resize(tensors * cuda::kBins);
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
    view.histogram = histogram_.data();
    view.candidate_index = candidate_index_.data();
    view.candidate_value = candidate_value_.data();
    view.pick_index = pick_index_.data();
    view.pick_value = pick_value_.data();
    return view;
  }

  void Step(const std::vector<const float*>& gradients, const cuda::Scale& scale) {
    gradients_ = gradients;
    const cuda::GroupView view = View();
    EmulatedGrid::RunEach(view.tiles,
                          [&, shared = cuda::AccumulateShared{}](EmulatedThread& thread) mutable {
                            cuda::AccumulateTile(thread, shared, view, scale);
                          });
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
  std::vector<const float*> gradients_;
  std::vector<cuda::TensorState> states_;
  std::vector<cuda::TensorOutcome> outcomes_;
  std::vector<uint32_t> tile_first_, tile_count_, tile_larger_, tile_ties_, histogram_;
  std::vector<uint32_t> candidate_index_, pick_index_;
  std::vector<float> candidate_value_, pick_value_;
};

bool SameBits(std::span<const float> a, std::span<const float> b) {
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
std::vector<float> Gradient(uint64_t elements, int kind, uint64_t seed) {
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

// With `momentum` every second tensor has some.
void RunSteps(std::vector<TensorShape> shapes, bool momentum, uint32_t blocks, int kind,
              int steps) {
  for (size_t t = 0; momentum && t < shapes.size(); t += 2) shapes[t].momentum = 0.9f - 0.1f * t;
  EmulatedGroup device(shapes, blocks);
  std::vector<Plain> plain;
  for (const TensorShape& shape : shapes) plain.emplace_back(shape);
  Random random(kind + 1);
  for (int step = 0; step < steps; ++step) {
    // The threshold jumps up and down, so that guesses fail in both directions.
    const cuda::Scale scale{step % 4 == 2   ? 10.0f
                            : step % 4 == 3 ? 0.1f
                                            : 1.5f,
                            step % 2 ? 1.0f : 0.5f};
    std::vector<std::vector<float>> gradients;
    std::vector<const float*> pointers;
    for (const TensorShape& shape : shapes) {
      gradients.push_back(Gradient(shape.elements + 1, kind, step + 1));
      pointers.push_back(gradients.back().data() + step % 2);
    }
    device.Step(pointers, scale);
    std::vector<float> sent = device.pick_values();
    std::vector<uint8_t> accepted(device.layout().picks);
    for (auto& bit : accepted) bit = random.Below(3) != 0;
    for (size_t t = 0; t < shapes.size(); ++t) {
      SCOPED_TRACE(absl::StrFormat("kind %d, step %d, tensor %d of %d elements, k %d", kind, step,
                                   t, shapes[t].elements, shapes[t].k));
      const Entries expected = plain[t].Step(pointers[t], scale);
      ASSERT_EQ(device.Picks(t), expected);
      ASSERT_TRUE(SameBits(device.Shadow(t), plain[t].shadow));
      const uint32_t first = device.layout().tensors[t].first_pick;
      for (size_t j = 0; j < expected.size(); ++j) {
        sent[first + j] *= 0.75f;  // as if a value code had rounded
        if (accepted[first + j] == 0) continue;
        plain[t].shadow[expected.index[j]] -= sent[first + j];
        if (shapes[t].momentum != 0) plain[t].momentum_shadow[expected.index[j]] = 0;
      }
      plain[t].residual.swap(plain[t].shadow);
      plain[t].momentum.swap(plain[t].momentum_shadow);
    }
    device.Commit(sent, accepted);
    for (size_t t = 0; t < shapes.size(); ++t) {
      ASSERT_TRUE(SameBits(device.Residual(t), plain[t].residual));
      if (shapes[t].momentum != 0) {
        ASSERT_TRUE(SameBits(device.Momentum(t), plain[t].momentum));
      }
    }
  }
}

TEST(CudaSelect, PicksAndResidualsEqualThePlainOnesToTheBit) {
  const std::vector<TensorShape> shapes = {{1, 1}, {4097, 4097}, {9001, 90}, {130, 2}, {8192, 800}};
  for (int kind = 0; kind < kKinds; ++kind) RunSteps(shapes, kind % 2 == 1, 2, kind, 4);
}

TEST(CudaSelect, TheNumberOfBlocksDoesNotMatter) {
  for (uint32_t blocks : {1, 2, 5}) RunSteps({{12289, 100}, {70, 7}}, false, blocks, kKinds - 1, 3);
}

TEST(CudaSelect, AGoodGuessReadsTheListAndABadOneTheWholeResidual) {
  EmulatedGroup device({{40000, 100}}, 2);
  uint32_t dense = 0;
  for (int step = 0; step < 6; ++step) {
    const auto gradient = Gradient(40000, kKinds - 1, step + 1);
    const bool jump = step == 4;
    // Momentum of nothing, no memory of the last step: every step is a fresh, equal distribution.
    device.Step({gradient.data()}, {jump ? 0.001f : 1.0f, 0});
    ASSERT_EQ(device.outcome(0).picked, 100u);
    if (step == 0 || jump) {
      EXPECT_EQ(device.outcome(0).dense, 1u) << step;  // no guess yet; a guess far too high
    } else if (step < 4) {
      dense += device.outcome(0).dense;
    }
    device.Commit(device.pick_values(), std::vector<uint8_t>(100));
  }
  EXPECT_LE(dense, 1u);
}

TEST(CudaSelect, NonFiniteValuesAreAcceptedAndNeverPicked) {
  EmulatedGroup device({{10000, 50}, {100, 100}}, 2);
  auto first = Gradient(10000, kKinds - 1, 1), second = Gradient(100, kKinds - 1, 2);
  first[17] = std::numeric_limits<float>::infinity();
  first[9000] = -std::numeric_limits<float>::infinity();
  second[99] = std::numeric_limits<float>::quiet_NaN();
  for (int step = 0; step < 2; ++step) {  // cold, then with a floor; not committed
    device.Step({first.data(), second.data()}, {1, 1});
    EXPECT_EQ(device.outcome(0).nonfinite, 2u);
    EXPECT_EQ(device.outcome(1).nonfinite, 1u);
    EXPECT_EQ(device.outcome(0).picked, 50u);
    EXPECT_EQ(device.outcome(1).picked, 99u);
    for (size_t t : {0, 1}) {
      for (float value : device.Picks(t).value) EXPECT_TRUE(std::isfinite(value));
    }
  }
}

TEST(CudaSelect, WithWeightZeroTheGradientIsNotReadAndTheMomentumGoesOn) {
  const std::vector<TensorShape> shapes = {{5001, 50, 0.5f}, {130, 13}};
  EmulatedGroup device(shapes, 2);
  std::vector<Plain> plain(shapes.begin(), shapes.end());
  const std::vector<float> nothing(5002, std::numeric_limits<float>::quiet_NaN()), zeros(5002);
  for (int step = 0; step < 4; ++step) {
    const float weight = step % 2 == 0 ? 2.0f : 0.0f;
    const auto gradient = Gradient(5002, kKinds - 1, step + 1);
    const float* const given = (weight == 0 ? nothing : gradient).data() + step / 2;
    const float* const meant = (weight == 0 ? zeros : gradient).data() + step / 2;
    device.Step({given, given}, {weight, 1});
    for (size_t t = 0; t < shapes.size(); ++t) {
      ASSERT_EQ(device.Picks(t), plain[t].Step(meant, {weight, 1})) << step;
      ASSERT_TRUE(SameBits(device.Shadow(t), plain[t].shadow));
      plain[t].residual.swap(plain[t].shadow);
      plain[t].momentum.swap(plain[t].momentum_shadow);
    }
    device.Commit(device.pick_values(), std::vector<uint8_t>(device.layout().picks));
  }
}

TEST(CudaSelect, WithoutMaskingTheMomentumOutlivesItsPick) {
  for (const bool masking : {true, false}) {
    EmulatedGroup device({{100, 1, 0.5f}}, 1);
    std::vector<float> gradient(100);
    gradient[7] = 8;
    device.Step({gradient.data()}, {1, 1});
    device.Commit(device.pick_values(), {1}, masking);
    EXPECT_EQ(device.Residual(0)[7], 0);
    EXPECT_EQ(device.Momentum(0)[7], masking ? 0 : 8);
  }
}

TEST(CudaSelect, APickThatIsRoundedToZeroKeepsItsMomentum) {
  EmulatedGroup device({{100, 2, 0.5f}}, 1);
  std::vector<float> gradient(100);
  gradient[7] = 8;
  gradient[9] = 0.25f;
  device.Step({gradient.data()}, {1, 1});
  device.Commit({8, 0}, {1, 1});
  EXPECT_EQ(device.Momentum(0)[7], 0);
  EXPECT_EQ(device.Momentum(0)[9], 0.25f);
  EXPECT_EQ(device.Residual(0)[9], 0.25f);
}

TEST(CudaSelect, TheFloorRisesAgainWhereMoreCandidatesReachItThanThereIsRoomFor) {
  const uint64_t elements = 40000, k = 50;
  EmulatedGroup device({{elements, k}}, 2);
  std::vector<float> gradient(elements, 0.95f);  // a pile just below the threshold
  for (uint64_t i = 0; i < k; ++i) gradient[i * 700] = 1;
  int lists = 0;  // steps that selected from the list of candidates
  for (int step = 0; step < 12; ++step) {
    device.Step({gradient.data()}, {1, 1});
    EXPECT_EQ(device.outcome(0).picked, k);
    lists += device.outcome(0).dense == 0 ? 1 : 0;
  }
  EXPECT_GT(lists, 0);
}

TEST(CudaSelect, AGroupBeyondThirtyTwoBitsIsRefused) {
  EXPECT_EQ(cuda::LayOut({{uint64_t{1} << 32, 10}}).status().code(),
            StatusCode::kResourceExhausted);
  EXPECT_EQ(cuda::LayOut({{UINT32_MAX, UINT32_MAX}, {100, 10}}).status().code(),
            StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace ringwood
