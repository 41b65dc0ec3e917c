// Sums by Highway, compiled for several instruction sets and chosen when the program runs. The
// results are bit-identical to the plain loops on every one of them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ringwood {

void SimdAddFloat32(const float* a, const float* b, float* out, size_t count);
void SimdAddBFloat16(const uint16_t* a, const uint16_t* b, uint16_t* out, size_t count);

}  // namespace ringwood
