#include "base/digest.h"

#include RINGWOOD_XXHASH  // set in cmake/packages.cmake

namespace ringwood {

uint64_t Digest(std::span<const std::byte> bytes, uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

uint64_t Combine(uint64_t digest, uint64_t next) {
  return XXH3_64bits_withSeed(&next, sizeof next, digest);
}

}  // namespace ringwood
