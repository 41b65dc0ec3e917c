// In which order the chunks of one item are taken that come from several stores. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/status.h"

namespace ringwood {

// What a stream has next; each brings its chunks in the order of their offsets.
struct NextChunk {
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

// Whose turn it is at byte `at` of `item_bytes`: the stream whose next chunk begins there. Nothing:
// all bytes are there, and no stream has more. Corrupt: no stream goes on there, two do, or one
// has bytes that are none of the item. `next`: nothing where a stream has ended.
StatusOr<std::optional<size_t>> WhoseTurn(std::span<const std::optional<NextChunk>> next,
                                          uint64_t at, uint64_t item_bytes,
                                          const std::string& item);

}  // namespace ringwood
