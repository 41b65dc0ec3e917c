// The arithmetic of rings by Highway, compiled for several instruction sets and chosen when the
// program runs. The results are bit-identical to the plain loops on every one of them (NaNs' bits
// apart where two NaNs meet).
#pragma once

#include <cstddef>
#include <cstdint>

namespace ringwood {

void SimdAddFloat32(const float* a, const float* b, float* out, size_t count);
void SimdAddBFloat16(const uint16_t* a, const uint16_t* b, uint16_t* out, size_t count);

// What dense/arithmetic/rounding.h says of the functions without "Simd".
void SimdRoundSum(const float* x, const float* error, uint16_t* wire, float* next_error,
                  size_t count);
void SimdRoundPartialSum(const uint16_t* partial, const float* x, const float* error,
                         uint16_t* wire, float* next_error, size_t count);
void SimdWidenBehind(float* values, size_t count);

}  // namespace ringwood
