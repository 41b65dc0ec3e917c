// The client's own passes over dense memory: of fp32, or of bf16 as its bits, which is widened and
// rounded to nearest even.
#pragma once

#include <cstdint>
#include <span>

namespace ringwood {

// The largest magnitude that each of `terms` values may have so that their sum in fp32 is finite in
// any order of additions: FLT_MAX / terms, and half of that because every addition may round up.
float LargestSummand(int terms);

// out[i] = weight * in[i]; with weight 0 zeros, whatever `in` holds. True if some product is a NaN,
// an Inf, or so large that a sum over `world` such values could overflow.
bool ScaleInto(std::span<const float> in, float weight, int world, std::span<float> out);

bool ScaleInto(std::span<const uint16_t> in, float weight, int world, std::span<uint16_t> out);
bool ScaleInto(std::span<const float> in, float weight, int world, std::span<uint16_t> out);

// True if some weight * in[i] is a NaN or an Inf.
bool Overflows(std::span<const float> in, float weight);
bool Overflows(std::span<const uint16_t> in, float weight);

// out[i] = sum[i] / total, correctly rounded when `total` is a float; zeros when total is 0.
void DivideInto(std::span<const float> sum, double total, std::span<float> out);
void DivideInto(std::span<const uint16_t> sum, double total, std::span<uint16_t> out);

}  // namespace ringwood
