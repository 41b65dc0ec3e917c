// A digest that a device computes at the speed of its memory: the sum, modulo 2^64, of a mix of
// every 32-bit word with its place. Sums commute, so thousands of threads need no order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace ringwood {

// SplitMix64's finalizer (Steele, Lea, Flood 2014) over word and place.
constexpr uint64_t MixWord(uint32_t word, uint64_t place) {
  uint64_t z = word + (place + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// Words are little endian, the last one filled up with zeros. The reference of the kernel.
inline uint64_t WordDigest(const void* data, uint64_t bytes) {
  uint64_t digest = 0;
  for (uint64_t place = 0; place * 4 < bytes; ++place) {
    uint32_t word = 0;
    const uint64_t left = bytes - place * 4;
    std::memcpy(&word, static_cast<const std::byte*>(data) + place * 4, left < 4 ? left : 4);
    digest += MixWord(word, place);
  }
  return digest;
}

}  // namespace ringwood
