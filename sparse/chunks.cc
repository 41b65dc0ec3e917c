#include "sparse/chunks.h"

#include <algorithm>

namespace ringwood {
namespace {

constexpr uint64_t kRunEntries = 256;
constexpr uint64_t kRendezvousBytes = 1 << 20;

}  // namespace

Content ContentOf(const Codec& codec, uint64_t count) {
  return {static_cast<uint8_t>(codec.value), codec.id(), count};
}

int ChunkCount(const Codec& codec, uint64_t share) {
  const auto bytes = static_cast<uint64_t>(codec.EntryBytes() * static_cast<double>(share));
  const uint64_t count =
      bytes < kRendezvousBytes ? share / kChunkEntries : bytes / kRendezvousBytes;
  return static_cast<int>(std::max<uint64_t>(count, 1));
}

uint64_t Cut::entries() const {
  const uint64_t each = (size + static_cast<uint64_t>(chunks) - 1) / static_cast<uint64_t>(chunks);
  return (each + kRunEntries - 1) / kRunEntries * kRunEntries;
}

uint64_t Cut::begin(int chunk) const {
  return std::min(size, static_cast<uint64_t>(chunk) * entries());
}

uint64_t MaxChunkBytes(const Codec& codec, uint64_t elements, uint64_t most, int chunks) {
  return MaxWireBytes(codec, elements, std::min(most, Cut{most, chunks}.entries()));
}

}  // namespace ringwood
