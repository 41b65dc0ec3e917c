// Small numbers in few bytes: 7 bits a byte, low first; the top bit says that more follow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ringwood {

// To a place with room for 5 bytes; returns where it ends.
inline std::byte* PutVarint(uint32_t value, std::byte* to) {
  for (; value >= 0x80; value >>= 7) *to++ = static_cast<std::byte>(value | 0x80);
  *to++ = static_cast<std::byte>(value);
  return to;
}

inline void PutVarint(uint32_t value, std::vector<std::byte>* out) {
  std::byte bytes[5];
  out->insert(out->end(), bytes, PutVarint(value, bytes));
}

// Advances `wire`; false when it ends early or runs over `most` bytes (at most 5).
inline bool GetVarint(int most, std::span<const std::byte>* wire, uint32_t* value) {
  *value = 0;
  for (int i = 0; i < most && static_cast<size_t>(i) < wire->size(); ++i) {
    const uint32_t byte = static_cast<uint32_t>((*wire)[i]);
    *value |= (byte & 0x7f) << (7 * i);
    if (byte < 0x80) {
      *wire = wire->subspan(i + 1);
      return true;
    }
  }
  return false;
}

}  // namespace ringwood
