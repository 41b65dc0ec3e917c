// What the kernels of codes (dense/lattice/codes.h) see: plain memory of a device, no ownership.
// Included by device and host code: nothing of CUDA in here.
#pragma once

#include <cstdint>

namespace ringwood::cuda {

// Packs one after the other, in the packed form of codes.h with a byte for a byte.
struct PackedWords {
  uint16_t* words = nullptr;
  int width = 0;  // bits of a code
};

// Of blocks that begin a chunk; arrays of elements and blocks from there on.
struct EncodeView {
  const float* values = nullptr;
  const float* error = nullptr;
  float* next_error = nullptr;
  const uint16_t* reach = nullptr;
  uint64_t elements = 0;  // that there are; what is packed beyond them are zeros
  uint64_t packs = 0;     // to pack
  int levels = 0;
  uint16_t less = 0;
  PackedWords codes;
};

// This rank's codes, or its host's sums, and those of others: so many packs of each, all of one
// width.
struct AddView {
  PackedWords own;
  PackedWords rest;  // of the others, one after the other
  int others = 0;
  uint64_t packs = 0;
  PackedWords sums;
};

struct DecodeView {
  PackedWords sums;
  const uint16_t* reach = nullptr;
  uint16_t* next_reach = nullptr;
  float* values = nullptr;
  uint64_t elements = 0;
  int levels = 0;
  int terms = 0;             // ranks in each sum
  uint32_t* most = nullptr;  // becomes at least every next reach
};

}  // namespace ringwood::cuda
