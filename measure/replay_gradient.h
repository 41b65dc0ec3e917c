// Gradients that resemble a model's for selection: heavy-tailed, the same for the same seed, new in
// every step. With constants every selection would be a tie.
#pragma once

#include <cstdint>
#include <span>

namespace ringwood {

// The seed of one tensor's gradient in one step.
uint64_t GradientSeed(uint64_t seed, int rank, uint64_t step, uint32_t tensor);

// Independent values of Student's t distribution with two degrees of freedom, times 1e-3. All are
// finite, of magnitude 33 at most.
void FillGradient(uint64_t seed, std::span<float> out);

}  // namespace ringwood
