// A stream of bits, low ones first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace ringwood {

class BitWriter {
 public:
  explicit BitWriter(std::byte* to) : to_(to) {}
  // count <= 32; value < 2^count.
  void Put(uint64_t value, int count) {
    bits_ |= value << filled_;
    filled_ += count;
    if (filled_ < 32) return;
    const uint32_t low = static_cast<uint32_t>(bits_);
    std::memcpy(to_, &low, 4);
    to_ += 4;
    bits_ >>= 32;
    filled_ -= 32;
  }
  void PutOnes(uint32_t count) {
    for (; count >= 32; count -= 32) Put(0xffffffffu, 32);
    Put((1ull << count) - 1, static_cast<int>(count));
  }
  // Where the last byte with bits of the stream ends.
  std::byte* Finish() {
    for (; filled_ > 0; filled_ -= 8, bits_ >>= 8) *to_++ = static_cast<std::byte>(bits_);
    return to_;
  }

 private:
  std::byte* to_;
  uint64_t bits_ = 0;
  int filled_ = 0;
};

// Reads past the end give zeros; Ok() says whether that happened.
class BitReader {
 public:
  explicit BitReader(std::span<const std::byte> wire) : wire_(wire) {}
  // At least 57 bits from the present position, low first.
  uint64_t Peek() const {
    uint64_t word = 0;
    const size_t at = position_ / 8;
    if (at + 8 <= wire_.size()) {
      std::memcpy(&word, wire_.data() + at, 8);
    } else if (at < wire_.size()) {
      std::memcpy(&word, wire_.data() + at, wire_.size() - at);
    }
    return word >> position_ % 8;
  }
  void Skip(int bits) { position_ += bits; }
  bool Ok() const { return position_ <= 8 * wire_.size(); }
  uint64_t bytes() const { return (position_ + 7) / 8; }

 private:
  std::span<const std::byte> wire_;
  uint64_t position_ = 0;
};

}  // namespace ringwood
