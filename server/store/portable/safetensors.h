// The safetensors file format (https://github.com/huggingface/safetensors, "Format"):
//
//   8 bytes    N, little-endian
//   N bytes    JSON: {"__metadata__": {TEXT: TEXT, …},
//                     NAME: {"dtype": "F32", "shape": [2, 3], "data_offsets": [BEGIN, END]}, …}
//   the rest   the tensors' bytes, little-endian, rows first; offsets count from here
//
// Pure: bytes in, values out. What is read is hostile: whatever the bytes are, the answer is a
// consistent value or Corrupt with a sentence, and memory is bounded by the header's size.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/tensor_type.h"

namespace ringwood {

inline constexpr uint64_t kSafetensorsPrefixBytes = 8;
inline constexpr uint64_t kMaxSafetensorsHeaderBytes = 100'000'000;  // as the reference has it
inline constexpr size_t kMaxSafetensors = 1 << 20;                   // tensors of a file
inline constexpr size_t kMaxSafetensorNameBytes = 255;               // an item has no longer one

struct Safetensor {
  std::string name;  // UTF-8 without control characters
  TensorType type;
  uint64_t offset = 0;  // of its bytes, behind the header
  uint64_t bytes = 0;
  bool operator==(const Safetensor&) const = default;
};

// All of a file but the tensors' bytes. Tensors are in the order of their bytes, without gaps.
struct Safetensors {
  std::vector<Safetensor> tensors;
  std::map<std::string, std::string> metadata;
  uint64_t DataBytes() const;
  bool operator==(const Safetensors&) const = default;
};

// Orders the tensors so that each is aligned to its elements, and gives them their sizes and
// offsets. Invalid: a name or type that the format cannot have, or a name twice.
Status Arrange(Safetensors* file);

// The beginning of an arranged file: its length, and the header padded to a multiple of 8 bytes.
StatusOr<std::string> SafetensorsHeader(const Safetensors& file);

// N, from the file's first 8 bytes.
StatusOr<uint64_t> SafetensorsHeaderBytes(const std::string& prefix, uint64_t file_bytes);

// `header`: the N bytes; `data_bytes`: how many follow them in the file.
StatusOr<Safetensors> ParseSafetensors(const std::string& header, uint64_t data_bytes);

}  // namespace ringwood
