// Clipping of a rank's own gradient by its norm, below the selection (Deep Gradient Compression,
// Lin et al. 2018): before the residual takes it up.
#pragma once

#include <span>

namespace ringwood {

// Σ v². The same bits on every CPU.
double SquaredNorm(std::span<const float> values);

// The weight with which `gradient` is taken up so that its norm counts as `limit` at most: `weight`
// itself where the norm is within, where it is no number, and for limit 0 (which costs no pass).
float ClippedWeight(std::span<const float> gradient, float weight, double limit);

}  // namespace ringwood
