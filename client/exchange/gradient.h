// Passes over a gradient, whatever type it has: into the flat memory of a group and back, and to
// and from float32, which holds every bfloat16. What is rounded is rounded to nearest even.
#pragma once

#include <cstddef>
#include <span>

#include "client/exchange/tensor.h"

namespace ringwood {

// ScaleInto and DivideInto (scale.h), between the gradient and memory of `type`: float32, or
// bfloat16 where the gradient is one or is to be rounded to it.
bool PackGradient(const Tensor& tensor, float weight, int terms, DataType type,
                  std::span<std::byte> out);
void UnpackSum(std::span<const std::byte> sum, DataType type, double total, const Tensor& tensor);

void ClearGradient(const Tensor& tensor);
// `out` and `values` have its elements from `first` on.
void ReadGradient(const Tensor& tensor, std::span<float> out);
void WriteGradient(const Tensor& tensor, size_t first, std::span<const float> values);

// out[i] = the bfloat16 of these bits.
void Widen(std::span<const uint16_t> bits, std::span<float> out);

}  // namespace ringwood
