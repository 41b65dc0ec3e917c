#include "sparse/sparse_tensor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>

#include "tests/sparse/samples.h"

namespace ringwood {
namespace {

std::vector<float> Copy(std::span<const float> values) { return {values.begin(), values.end()}; }

bool EqualBits(const std::vector<float>& a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * 4) == 0;
}

std::vector<uint8_t> EveryOther(size_t count) {
  std::vector<uint8_t> accepted(count);
  for (size_t j = 0; j < count; ++j) accepted[j] = j % 2;
  return accepted;
}

// The rules of error feedback, written down once more without any cleverness.
struct PlainTensor {
  std::vector<float> e, u;
  Entries picks;
  void Step(const std::vector<float>& g, float weight, const SparseOptions& options) {
    for (size_t i = 0; i < e.size(); ++i) {
      float x = weight * g[i];
      if (options.momentum != 0) x = u[i] = options.momentum * u[i] + x;
      e[i] = options.decay * e[i] + x;
    }
    picks = SelectPlain(e, options.k);
    for (size_t j = 1; j < picks.size(); j += 2) {
      e[picks.index[j]] = 0;
      u[picks.index[j]] = 0;
    }
  }
};

TEST(SparseTensor, EqualsThePlainRulesToTheBitOverManySteps) {
  for (float momentum : {0.0f, 0.9f}) {
    for (float decay : {1.0f, 0.95f}) {
      for (uint64_t elements : {1, 64, 1000, 30011}) {
        const SparseOptions options{elements / 50 + 1, momentum, decay, 0};
        SparseTensor tensor(elements, options);
        PlainTensor plain{std::vector<float>(elements), std::vector<float>(elements), {}};
        for (uint64_t step = 0; step < 6; ++step) {
          // Odd steps jump by 10 up, even ones by 10 down: the guess is far off both ways.
          auto gradient = MakeGradient(Pattern::kRandom, elements, 1, step);
          for (float& g : gradient) g *= step % 2 ? 0.37f : 0.0037f;
          EXPECT_EQ(tensor.Accumulate(gradient, 1.5f), 0u);
          plain.Step(gradient, 1.5f, options);
          ASSERT_EQ(tensor.picks(), plain.picks) << elements << " step " << step;
          tensor.Commit(EveryOther(tensor.picks().size()));
          ASSERT_TRUE(EqualBits(plain.e, tensor.residual()));
          if (momentum != 0) {
            ASSERT_TRUE(EqualBits(plain.u, tensor.mutable_momentum()));
          }
        }
      }
    }
  }
}

// The k first of the order by nth_element: SelectPlain sorts, which is slow here.
Entries SelectByNthElement(std::span<const float> values, uint64_t k) {
  std::vector<uint32_t> keys;
  for (float value : values) keys.push_back(KeyOf(value));
  std::nth_element(keys.begin(), keys.begin() + (k - 1), keys.end(), std::greater<>());
  const uint32_t kth = keys[k - 1];
  const auto larger =
      std::count_if(values.begin(), values.end(), [&](float value) { return KeyOf(value) > kth; });
  uint64_t ties = k - static_cast<uint64_t>(larger);
  Entries picks;
  for (uint32_t i = 0; i < values.size(); ++i) {
    const bool tie = KeyOf(values[i]) == kth && ties > 0;
    ties -= tie;
    if (KeyOf(values[i]) > kth || tie) picks.push_back(i, values[i]);
  }
  return picks;
}

TEST(SparseTensor, OfTenMillionAtAnOddOffsetIsExactWhenTheThresholdJumps) {
  const uint64_t elements = 10'000'019, k = 10'000;
  std::vector<float> memory = MakeGradient(Pattern::kRandom, elements + 1, 0, 4);
  const std::span<float> gradient = std::span(memory).subspan(1);
  SparseTensor tensor(elements, {k, 0, 1, 0});
  for (float jump : {1.0f, 10.0f, 0.1f, 1.0f}) {  // of what is added: many ties, too
    for (float& g : gradient) g *= jump;
    ASSERT_EQ(tensor.Accumulate(gradient, 1), 0u);
    std::vector<float> sum = Copy(tensor.residual());
    for (uint64_t i = 0; i < elements; ++i) sum[i] += gradient[i];
    ASSERT_EQ(tensor.picks(), SelectByNthElement(sum, k)) << jump;
    tensor.Commit(EveryOther(tensor.picks().size()));
  }
}

TEST(SparseTensor, AbortRestoresResidualAndMomentumToTheBit) {
  SparseTensor tensor(5000, {50, 0.9f, 1, 0});
  auto gradient = MakeGradient(Pattern::kRandom, 5000, 0, 1);
  for (float& g : gradient) g *= 0.1f;
  tensor.Accumulate(gradient, 1);
  tensor.Commit(EveryOther(tensor.picks().size()));
  const auto residual = Copy(tensor.residual());
  const auto momentum = Copy(tensor.mutable_momentum());
  for (int attempt = 0; attempt < 3; ++attempt) {
    tensor.Accumulate(gradient, 0.3f);
    tensor.Abort();
    EXPECT_TRUE(EqualBits(residual, tensor.residual()));
    EXPECT_TRUE(EqualBits(momentum, tensor.mutable_momentum()));
  }
  tensor.Accumulate(gradient, 0.3f);
  const Entries first = tensor.picks();
  tensor.Abort();
  tensor.Accumulate(gradient, 0.3f);
  EXPECT_EQ(tensor.picks(), first);
}

TEST(SparseTensor, WhatARoundingCodeDidNotSendStaysInTheResidual) {
  SparseTensor tensor(4, {2, 0, 1, 0});
  tensor.Accumulate(std::vector<float>{5.25f, 1, -3.125f, 0}, 1);
  tensor.SetSent(std::vector<float>{5, -3});
  tensor.Commit(std::vector<uint8_t>{1, 1});
  EXPECT_EQ(Copy(tensor.residual()), (std::vector<float>{0.25f, 1, -0.125f, 0}));
}

TEST(SparseTensor, APickThatIsRoundedToZeroKeepsItsMomentum) {
  SparseTensor tensor(3, {2, 0.5f, 1, 0});
  tensor.Accumulate(std::vector<float>{8, 0.25f, 0}, 1);
  tensor.SetSent(std::vector<float>{8, 0});
  tensor.Commit(std::vector<uint8_t>{1, 1});
  EXPECT_EQ(Copy(tensor.residual()), (std::vector<float>{0, 0.25f, 0}));
  EXPECT_EQ(Copy(tensor.mutable_momentum()), (std::vector<float>{0, 0.25f, 0}));
}

TEST(SparseTensor, ReportsNonFiniteValuesAndKeepsThemOutOfThePicks) {
  SparseTensor tensor(6, {6, 0, 1, 0});
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(tensor.Accumulate(std::vector<float>{1, inf, -inf, std::nanf(""), 2, 0}, 1), 3u);
  EXPECT_EQ(tensor.picks().index, (std::vector<uint32_t>{0, 4}));
  tensor.Abort();
  EXPECT_EQ(tensor.Accumulate(std::vector<float>{1, 1, 1, 1, 1, 1}, 1), 0u);
  EXPECT_EQ(tensor.picks().size(), 6u);
}

TEST(SparseTensor, NonFiniteValuesAreAcceptedOnceWhenTheGuessWasTooHigh) {
  SparseTensor tensor(20000, {100, 0, 1, 0});
  auto gradient = MakeGradient(Pattern::kRandom, 20000, 0, 9);
  tensor.Accumulate(gradient, 1);
  tensor.Abort();
  for (float& g : gradient) g *= 1e-3f;
  gradient[777] = std::nanf("");
  EXPECT_EQ(tensor.Accumulate(gradient, 1), 1u);
  EXPECT_EQ(tensor.picks(), SelectPlain(gradient, 100));
}

TEST(SparseTensor, ByChunkEachChunkGivesTheLargestOfItsShare) {
  const uint64_t elements = 10000, size = 4096, k = 100;  // shares 33, 33, 34
  SparseTensor tensor(elements, {k, 0, 1, size});
  auto gradient = MakeGradient(Pattern::kRandom, elements, 0, 5);
  gradient[9999] = std::nanf("");
  EXPECT_EQ(tensor.Accumulate(gradient, 1), 1u);
  Entries expected;
  const uint64_t shares[] = {33, 33, 34};
  for (uint64_t chunk = 0; chunk < 3; ++chunk) {
    const auto part = std::span<const float>(gradient).subspan(
        chunk * size, std::min(size, elements - chunk * size));
    const Entries picks = SelectPlain(part, shares[chunk]);
    for (size_t j = 0; j < picks.size(); ++j) {
      expected.push_back(chunk * size + picks.index[j], picks.value[j]);
    }
  }
  EXPECT_EQ(tensor.picks(), expected);
}

TEST(SparseTensor, AnotherDensityTakesEffectAtTheNextStep) {
  SparseTensor tensor(3000, {30, 0, 1, 0});
  const auto gradient = MakeGradient(Pattern::kRandom, 3000, 0, 2);
  tensor.Accumulate(gradient, 1);
  tensor.Abort();
  tensor.set_k(900);
  tensor.Accumulate(gradient, 1);
  EXPECT_EQ(tensor.picks(), SelectPlain(gradient, 900));
}

}  // namespace
}  // namespace ringwood
