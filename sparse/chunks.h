// How a message of entries travels: in chunks of consecutive entries, so that encoding, the
// network, decoding and merging overlap. How many there are follows from the plan, so both sides
// know; a sender spreads what it has evenly over them. Pure.
#pragma once

#include <cstdint>

#include "sparse/codec.h"
#include "transport/frame.h"

namespace ringwood {

// The frame's content for a message of `count` entries in this codec; 0: any number.
Content ContentOf(const Codec& codec, uint64_t count);

// Least entries of a chunk, if there are so many: a shorter message costs more than it gains.
// Integer value codes share a scale among up to 256 neighbours (value_code.h), so chunks are
// multiples of that and a message's values are the same in one piece and in many.
constexpr uint64_t kChunkEntries = 8192;

// Chunks of every message of a range to which a worker sends about `share` entries. At most 21 of
// what the transport sends at once; messages of a mebibyte and more, which wait for the receiver
// (a rendezvous), are cut into chunks that do the same.
int ChunkCount(const Codec& codec, uint64_t share);

// Chunk j has entries [begin(j), begin(j + 1)) of `size`.
struct Cut {
  uint64_t size = 0;
  int chunks = 1;
  uint64_t entries() const;  // of a chunk at most
  uint64_t begin(int chunk) const;
};

// No chunk of a message of at most `most` entries out of `elements` is longer.
uint64_t MaxChunkBytes(const Codec& codec, uint64_t elements, uint64_t most, int chunks);

}  // namespace ringwood
