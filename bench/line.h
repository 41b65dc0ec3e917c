// A line between two hosts that are far apart, as a value: when a packet that enters it comes out.
// Pure: no sockets, no clock.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

namespace ringwood {

struct LineShape {
  double bytes_per_second = 0;
  int64_t delay_nanoseconds = 0;  // one way
  int64_t queue_nanoseconds = 0;  // a packet that would wait longer for its turn is lost
};

// One direction of a host's card: packets pass it one after the other.
class Card {
 public:
  explicit Card(const LineShape& shape) : shape_(shape) {}

  // When the last byte of a packet that comes at `now` is through; nothing: the queue is full.
  std::optional<int64_t> Pass(int64_t now, size_t bytes) {
    const int64_t begin = std::max(now, free_);
    if (begin - now > shape_.queue_nanoseconds) return std::nullopt;
    // On the wire a packet also has an Ethernet header, a checksum, a preamble and a gap.
    constexpr double kFrame = 38;
    free_ = begin + static_cast<int64_t>(1e9 * (static_cast<double>(bytes) + kFrame) /
                                         shape_.bytes_per_second);
    return free_;
  }

 private:
  LineShape shape_;
  int64_t free_ = 0;
};

}  // namespace ringwood
