#include "client/exchange/scale.h"

#include <algorithm>
#include <bit>
#include <cfloat>

namespace ringwood {

bool ScaleInto(std::span<const float> in, float weight, int world, std::span<float> out) {
  if (weight == 0) {
    std::fill(out.begin(), out.end(), 0.0f);
    return false;
  }
  // |x| as an unsigned integer orders like |x|, with Inf and NaN above every number: one integer
  // maximum answers all three questions and vectorises.
  uint32_t largest = 0;
  for (size_t i = 0; i < in.size(); ++i) {
    const float value = weight * in[i];
    out[i] = value;
    largest = std::max(largest, std::bit_cast<uint32_t>(value) & 0x7fffffffu);
  }
  return largest > std::bit_cast<uint32_t>(FLT_MAX / static_cast<float>(world));
}

bool Overflows(std::span<const float> in, float weight) {
  uint32_t largest = 0;
  for (const float value : in) {
    largest = std::max(largest, std::bit_cast<uint32_t>(weight * value) & 0x7fffffffu);
  }
  return largest > std::bit_cast<uint32_t>(FLT_MAX);
}

void DivideInto(std::span<const float> sum, double total, std::span<float> out) {
  if (total == 0) {
    std::fill(out.begin(), out.end(), 0.0f);
    return;
  }
  const float divisor = static_cast<float>(total);
  if (static_cast<double>(divisor) == total) {
    for (size_t i = 0; i < sum.size(); ++i) out[i] = sum[i] / divisor;
  } else {
    for (size_t i = 0; i < sum.size(); ++i) out[i] = static_cast<float>(sum[i] / total);
  }
}

}  // namespace ringwood
