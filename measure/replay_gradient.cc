#include "measure/replay_gradient.h"

#include <algorithm>
#include <cmath>

#include "base/random.h"

namespace ringwood {
namespace {

constexpr float kScale = 1e-3f;
constexpr float kLeast = 0x1p-29f;  // of 1 - u*u: bounds the values

// The inverse of the distribution function, in u = 2p - 1.
float Quantile(uint32_t bits) {
  const float u = static_cast<float>(static_cast<int32_t>(bits)) * 0x1p-31f;
  return kScale * u * std::sqrt(2.0f / std::max(1.0f - u * u, kLeast));
}

}  // namespace

uint64_t GradientSeed(uint64_t seed, int rank, uint64_t step, uint32_t tensor) {
  uint64_t state = seed;
  for (const uint64_t word : {static_cast<uint64_t>(rank), step, uint64_t{tensor}}) {
    state = Random(state ^ word).Next();
  }
  return state;
}

void FillGradient(uint64_t seed, std::span<float> out) {
  Random random(seed);
  size_t i = 0;
  for (; i + 1 < out.size(); i += 2) {
    const uint64_t bits = random.Next();
    out[i] = Quantile(static_cast<uint32_t>(bits));
    out[i + 1] = Quantile(static_cast<uint32_t>(bits >> 32));
  }
  if (i < out.size()) out[i] = Quantile(static_cast<uint32_t>(random.Next()));
}

}  // namespace ringwood
