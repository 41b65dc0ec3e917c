#include "dense/arithmetic/rounding.h"

#include <cstring>

#include "base/unaligned.h"
#include "dense/arithmetic/half.h"
#include "dense/arithmetic/reduce_simd.h"

namespace ringwood {

void RoundSum(const float* x, const float* error, uint16_t* wire, float* next_error, size_t count) {
  SimdRoundSum(x, error, wire, next_error, count);
}

void RoundPartialSum(const uint16_t* partial, const float* x, const float* error, uint16_t* wire,
                     float* next_error, size_t count) {
  SimdRoundPartialSum(partial, x, error, wire, next_error, count);
}

void WidenBehind(float* values, size_t count) { SimdWidenBehind(values, count); }

void ReferenceRoundSum(const float* x, const float* error, uint16_t* wire, float* next_error,
                       size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const float v = x[i] + error[i];
    wire[i] = ToBFloat16(v);
    next_error[i] = v - FromBFloat16(wire[i]);
  }
}

void ReferenceRoundPartialSum(const uint16_t* partial, const float* x, const float* error,
                              uint16_t* wire, float* next_error, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const float v = FromBFloat16(ElementAt<uint16_t>(partial, i)) + (x[i] + error[i]);
    wire[i] = ToBFloat16(v);
    next_error[i] = v - FromBFloat16(wire[i]);
  }
}

void ReferenceWidenBehind(float* values, size_t count) {
  auto* const bytes = reinterpret_cast<std::byte*>(values);
  for (size_t i = 0; i < count; ++i) {
    uint16_t wire;
    std::memcpy(&wire, bytes + 2 * (count + i), sizeof wire);
    const float value = FromBFloat16(wire);
    std::memcpy(bytes + 4 * i, &value, sizeof value);
  }
}

}  // namespace ringwood
