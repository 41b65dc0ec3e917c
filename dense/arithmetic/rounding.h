// bf16 on the wire of an fp32 sum: who rounds keeps the error. Rounding is to nearest even; the
// error of a finite value is exact, so wire + error is the value to the bit.
//
// A kernel each, by Highway, and its plain reference with the same bits.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ringwood {

// The second half of the memory of `count` floats, as the wire form of the same elements.
inline uint16_t* HalfBehind(float* values, size_t count) {
  return reinterpret_cast<uint16_t*>(values) + count;
}

// v = x + error;  wire = bf16(v);  next_error = v - wire.
void RoundSum(const float* x, const float* error, uint16_t* wire, float* next_error, size_t count);
void ReferenceRoundSum(const float* x, const float* error, uint16_t* wire, float* next_error,
                       size_t count);

// v = partial + (x + error);  wire = bf16(v);  next_error = v - wire.  `partial` may be `wire`
// and need not be aligned.
void RoundPartialSum(const uint16_t* partial, const float* x, const float* error, uint16_t* wire,
                     float* next_error, size_t count);
void ReferenceRoundPartialSum(const uint16_t* partial, const float* x, const float* error,
                              uint16_t* wire, float* next_error, size_t count);

// values[i] = HalfBehind(values, count)[i], in place.
void WidenBehind(float* values, size_t count);
void ReferenceWidenBehind(float* values, size_t count);

}  // namespace ringwood
