// What the bytes of a stored tensor mean: element type and shape, as safetensors has them
// (https://github.com/huggingface/safetensors, "Format").
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace ringwood {

inline constexpr size_t kMaxDimensions = 64;  // as PyTorch has it

struct TensorType {
  std::string dtype;            // "F32"; empty: plain bytes, which have no shape
  std::vector<uint64_t> shape;  // empty: one element
  bool operator==(const TensorType&) const = default;
};

// Bytes of an element, as "F32" has 4; 0: there is no such type.
uint64_t BytesOfElement(const std::string& dtype);

// Bytes of a whole tensor. Invalid: no such type, too many dimensions, more bytes than 2^63.
StatusOr<uint64_t> BytesOf(const TensorType& type);

// OK for plain bytes, and for a tensor that has exactly `bytes`. `what` names it in the error.
Status CheckType(const std::string& what, const TensorType& type, uint64_t bytes);

// "F32 [64, 128]"; "bytes".
std::string ToString(const TensorType& type);

}  // namespace ringwood
