// Bytes of a round on their way out of a reducer: the chunks of one message, encoded once for all
// receivers, and the bits for the children that go with the result. Shared with the sends: not
// reused before the last of them is done.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "sparse/entries.h"
#include "sparse/reducer/part.h"
#include "transport/transport.h"

namespace ringwood {

class Outgoing {
 public:
  // A message that nobody sends any more: this one, or another in its place.
  static void Renew(std::shared_ptr<Outgoing>* message, uint64_t chunk_bytes, int chunks);

  Outgoing(uint64_t chunk_bytes, int chunks);

  std::span<std::byte> Room(int chunk);  // where the chunk is received or encoded

  // The chunk with its part of `entries`, which all chunks carry together.
  void Encode(const ReducerPart& part, const Entries& entries, int chunk);
  // The chunk is in its room, as another node encoded it.
  void Came(int chunk, size_t bytes, const Frame& frame);

  Payload Of(int chunk);
  uint64_t EntriesOf(int chunk) const { return chunks_[static_cast<size_t>(chunk)].entries; }

  std::vector<std::vector<std::byte>> accepted;  // bits, one message a child

 private:
  struct Chunk {
    size_t bytes = 0;
    uint64_t entries = 0;
    uint64_t digest = 0;  // worked out once, for all receivers
  };

  Buffer<std::byte> wire_;  // as large as all chunks can become
  std::vector<Chunk> chunks_;
};

}  // namespace ringwood
