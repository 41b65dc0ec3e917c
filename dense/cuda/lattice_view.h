// What the kernels of codes (dense/lattice/codes.h) see: plain memory of a device, no ownership.
// Included by device and host code: nothing of CUDA in here.
//
// Packed sums lie as the parts of a tensor, one after the other, each in the packed form of
// codes.h with a byte for a byte. Part p is a packed sum by itself, so it travels as it is.
#pragma once

#include <cstdint>

namespace ringwood::cuda {

struct PackedParts {
  uint16_t* words = nullptr;
  uint64_t part = 0;  // blocks of each part
  int width = 0;      // bits of a code
};

// Of blocks that begin a chunk; arrays of elements and blocks from there on.
struct EncodeView {
  const float* values = nullptr;
  const float* error = nullptr;
  float* next_error = nullptr;
  const uint16_t* reach = nullptr;
  uint64_t elements = 0;  // that there are; what is packed beyond them are zeros
  uint64_t blocks = 0;    // to pack: of all parts
  int levels = 0;
  uint16_t less = 0;
  PackedParts codes;
  uint64_t own_part = 0;          // that this rank adds: it is packed
  uint16_t* own_words = nullptr;  // here instead, at its place among parts
};

// One part of the tensor as all ranks sent it.
struct AddView {
  PackedParts codes;  // a part of each rank
  int ranks = 0;
  PackedParts sums;
  uint64_t sum_part = 0;  // the part of `sums` that is written
};

struct DecodeView {
  PackedParts sums;
  const uint16_t* reach = nullptr;
  uint16_t* next_reach = nullptr;
  float* values = nullptr;
  uint64_t elements = 0;
  int levels = 0;
  int terms = 0;             // ranks in each sum
  uint32_t* most = nullptr;  // becomes at least every next reach
};

}  // namespace ringwood::cuda
