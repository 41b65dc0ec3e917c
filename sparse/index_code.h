// How the indices of one block stand on the wire, relative to the block. The number of entries of
// each block stands before all of them (codec.cc).
//
//   block16  16 bits an index: fast
//   rice     a parameter byte p for each block that has entries, then as one stream of bits the
//            gaps g to the index before (minus one), low bits first: g >> p ones, a zero, the low p
//            bits of g (Rice 1979). p is chosen for each block; p = 0 is a bitmap, so dense blocks
//            cost 1 bit an element at most.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.h"
#include "sparse/codec.h"

namespace ringwood {

// Upper bound for `count` entries spread in any way over `blocks` blocks; never less for more
// entries.
uint64_t MaxIndexBytes(IndexCode code, uint64_t blocks, uint64_t count);

// Writes the indices to `to`, which has room for MaxIndexBytes; returns where they end. in_block[b]
// = entries of block b; their sum is index.size().
std::byte* EncodeIndices(IndexCode code, std::span<const uint32_t> in_block,
                         std::span<const uint32_t> index, std::byte* to);

// Reads as many indices as in_block says from the front of `wire` into `index` (of that size).
// in_block[0] counts those of the range's first block. Returns the bytes used, or an error; indices
// come out strictly increasing and inside the range.
StatusOr<uint64_t> DecodeIndices(IndexCode code, const IndexRange& range,
                                 std::span<const uint32_t> in_block,
                                 std::span<const std::byte> wire, std::span<uint32_t> index);

Status BadEntries(const char* what, uint64_t block);  // why a message cannot be read

}  // namespace ringwood
