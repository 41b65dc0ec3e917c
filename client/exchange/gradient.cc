#include "client/exchange/gradient.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "client/exchange/scale.h"
#include "dense/arithmetic/half.h"

namespace ringwood {
namespace {

template <class T>
std::span<T> As(std::span<std::byte> memory) {
  return {reinterpret_cast<T*>(memory.data()), memory.size() / sizeof(T)};
}

template <class T>
std::span<const T> As(std::span<const std::byte> memory) {
  return {reinterpret_cast<const T*>(memory.data()), memory.size() / sizeof(T)};
}

}  // namespace

bool PackGradient(const Tensor& tensor, float weight, int terms, DataType type,
                  std::span<std::byte> out) {
  const bool narrow = type == DataType::kBFloat16;
  if (tensor.type == DataType::kBFloat16) {
    RW_CHECK(narrow);
    return ScaleInto(std::span<const uint16_t>(tensor.bfloat16()), weight, terms,
                     As<uint16_t>(out));
  }
  if (narrow) return ScaleInto(tensor.gradient(), weight, terms, As<uint16_t>(out));
  return ScaleInto(tensor.gradient(), weight, terms, As<float>(out));
}

void UnpackSum(std::span<const std::byte> sum, DataType type, double total, const Tensor& tensor) {
  if (tensor.type == DataType::kBFloat16) {
    RW_CHECK(type == DataType::kBFloat16);
    return DivideInto(As<uint16_t>(sum), total, tensor.bfloat16());
  }
  if (type == DataType::kFloat32) return DivideInto(As<float>(sum), total, tensor.gradient());
  Widen(As<uint16_t>(sum), tensor.gradient());
  DivideInto(tensor.gradient(), total, tensor.gradient());
}

void ClearGradient(const Tensor& tensor) {
  std::ranges::fill(tensor.bytes(), std::byte{0});  // both types' zero
}

void ReadGradient(const Tensor& tensor, std::span<float> out) {
  if (tensor.type == DataType::kBFloat16) return Widen(tensor.bfloat16(), out);
  std::ranges::copy(tensor.gradient(), out.begin());
}

void WriteGradient(const Tensor& tensor, size_t first, std::span<const float> values) {
  if (tensor.type == DataType::kBFloat16) {
    std::ranges::transform(values, tensor.bfloat16().begin() + static_cast<ptrdiff_t>(first),
                           ToBFloat16);
    return;
  }
  std::ranges::copy(values, tensor.gradient().begin() + static_cast<ptrdiff_t>(first));
}

void Widen(std::span<const uint16_t> bits, std::span<float> out) {
  std::ranges::transform(bits, out.begin(), FromBFloat16);
}

}  // namespace ringwood
