#include "client/exchange/clip.h"

#include <array>
#include <cmath>
#include <cstddef>

namespace ringwood {

double SquaredNorm(std::span<const float> values) {
  constexpr size_t kSums = 8;  // in a fixed order, so that any vector width gives the same bits
  std::array<double, kSums> sums{};
  size_t i = 0;
  for (; i + kSums <= values.size(); i += kSums) {
    for (size_t s = 0; s < kSums; ++s) {
      const double value = values[i + s];
      sums[s] += value * value;
    }
  }
  for (; i < values.size(); ++i) sums[0] += static_cast<double>(values[i]) * values[i];
  double sum = 0;
  for (const double part : sums) sum += part;
  return sum;
}

float ClippedWeight(std::span<const float> gradient, float weight, double limit) {
  if (limit == 0) return weight;
  const double norm = std::sqrt(SquaredNorm(gradient));
  // A NaN or Inf passes unclipped: the step must see it.
  if (!(norm > limit) || std::isinf(norm)) return weight;
  return static_cast<float>(weight * (limit / norm));
}

}  // namespace ringwood
