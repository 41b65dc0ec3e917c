// Clipping of a rank's own gradient by its norm before it is added to the residual (Deep Gradient
// Compression, Lin et al. 2018).
#pragma once

#include <span>

namespace ringwood {

// Σ v². The same bits on every CPU.
double SquaredNorm(std::span<const float> values);

// The weight that clips `gradient` to a norm of at most `limit`: `weight` itself if the norm is
// within it or not finite, and for limit 0 (which costs no pass).
float ClippedWeight(std::span<const float> gradient, float weight, double limit);

}  // namespace ringwood
