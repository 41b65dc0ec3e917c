// XXH3: the checksum of frames and the digest of results (fast, 64 bits, not cryptographic: it
// finds accidents and divergence, not adversaries).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ringwood {

uint64_t Digest(std::span<const std::byte> bytes, uint64_t seed = 0);

// Order matters: Combine(a, b) != Combine(b, a).
uint64_t Combine(uint64_t digest, uint64_t next);

}  // namespace ringwood
