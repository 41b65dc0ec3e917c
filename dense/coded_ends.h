// What a coded all-reduce may have instead of an input and an output of fp32: pieces of memory that
// it encodes as it comes to them, and the sum as codes, for who decodes it later.
#pragma once

#include <cstddef>
#include <span>

namespace ringwood {

// fp32 elements of a longer array, from `begin` on, which is a multiple of kLatticePack.
struct CodedPiece {
  const float* values = nullptr;
  size_t begin = 0;
  size_t count = 0;
};

struct CodedEnds {
  // Instead of the input: in order, with less than a pack of zeros between them.
  std::span<const CodedPiece> pieces;
  float weight = 1;  // of all elements; 0: they are zeros, and none is read
  // Instead of the output, or beside it: one packed form of all blocks, in as many bits as a sum of
  // all ranks needs.
  std::span<std::byte> packed;
};

}  // namespace ringwood
