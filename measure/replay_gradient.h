// Gradients that look like a model's to whoever selects from them: heavy-tailed, the same for the
// same seed, new in every step. Constants would make every selection a tie.
#pragma once

#include <cstdint>
#include <span>

namespace ringwood {

// Where one tensor's gradient starts in the stream of randomness.
uint64_t GradientSeed(uint64_t seed, int rank, uint64_t step, uint32_t tensor);

// Independent values of Student's t distribution with two degrees of freedom, times 1e-3. All are
// finite, of magnitude 33 at most.
void FillGradient(uint64_t seed, std::span<float> out);

}  // namespace ringwood
