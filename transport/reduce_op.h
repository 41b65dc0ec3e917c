// What a collective does with the elements of two ranks.
#pragma once

#include <cstdint>

namespace ringwood {

// Numbered as in ringwood.h. An average is exchanged as a sum; the caller divides the result.
enum class ReduceOp : uint8_t { kSum, kAverage, kMax, kMin, kProduct };

constexpr const char* NameOf(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return "sum";
    case ReduceOp::kAverage:
      return "average";
    case ReduceOp::kMax:
      return "max";
    case ReduceOp::kMin:
      return "min";
    case ReduceOp::kProduct:
      return "product";
  }
  return "unknown";
}

}  // namespace ringwood
