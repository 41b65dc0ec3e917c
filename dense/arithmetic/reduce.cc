#include "dense/arithmetic/reduce.h"

#include <cmath>
#include <type_traits>

#include "base/unaligned.h"
#include "dense/arithmetic/half.h"
#include "dense/arithmetic/reduce_simd.h"

namespace ringwood {
namespace {

template <typename T>
T Combine(ReduceOp op, T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    const bool compares = op == ReduceOp::kMax || op == ReduceOp::kMin;
    if (compares && (std::isnan(a) || std::isnan(b))) return a + b;
  }
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAverage:
      if constexpr (std::is_integral_v<T>) {
        using Unsigned = std::make_unsigned_t<T>;
        return static_cast<T>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
      } else {
        return a + b;
      }
    case ReduceOp::kMax:
      return b > a ? b : a;
    case ReduceOp::kMin:
      return b < a ? b : a;
    case ReduceOp::kProduct:
      if constexpr (std::is_integral_v<T>) {
        return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
      } else {
        return a * b;
      }
  }
  return a;
}

template <typename T>
void Plain(ReduceOp op, const void* a, const void* b, void* out, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    SetElement<T>(out, i, Combine(op, ElementAt<T>(a, i), ElementAt<T>(b, i)));
  }
}

template <float (*Widen)(uint16_t), uint16_t (*Round)(float)>
void Half(ReduceOp op, const void* a, const void* b, void* out, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const float left = Widen(ElementAt<uint16_t>(a, i));
    const float right = Widen(ElementAt<uint16_t>(b, i));
    SetElement(out, i, Round(Combine(op, left, right)));
  }
}

}  // namespace

void ReferenceReduce(DataType type, ReduceOp op, const void* a, const void* b, void* out,
                     size_t count) {
  switch (type) {
    case DataType::kFloat32:
      return Plain<float>(op, a, b, out, count);
    case DataType::kFloat64:
      return Plain<double>(op, a, b, out, count);
    case DataType::kInt32:
      return Plain<int32_t>(op, a, b, out, count);
    case DataType::kInt64:
      return Plain<int64_t>(op, a, b, out, count);
    case DataType::kUInt8:
      return Plain<uint8_t>(op, a, b, out, count);
    case DataType::kBFloat16:
      return Half<FromBFloat16, ToBFloat16>(op, a, b, out, count);
    case DataType::kFloat16:
      return Half<FromFloat16, ToFloat16>(op, a, b, out, count);
  }
}

void Reduce(DataType type, ReduceOp op, const void* a, const void* b, void* out, size_t count) {
  // The sums that training spends its time on; the rest is compiled from the plain loops.
  const bool adds = op == ReduceOp::kSum || op == ReduceOp::kAverage;
  if (adds && type == DataType::kFloat32) {
    SimdAddFloat32(static_cast<const float*>(a), static_cast<const float*>(b),
                   static_cast<float*>(out), count);
  } else if (adds && type == DataType::kBFloat16) {
    SimdAddBFloat16(static_cast<const uint16_t*>(a), static_cast<const uint16_t*>(b),
                    static_cast<uint16_t*>(out), count);
  } else {
    ReferenceReduce(type, op, a, b, out, count);
  }
}

}  // namespace ringwood
