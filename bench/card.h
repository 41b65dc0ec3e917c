// One direction of a host's network card, as a value: when a packet is through. Pure: no sockets,
// no clock.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace ringwood {

class Card {
 public:
  // A packet that would wait longer than the queue for its turn is lost.
  Card(double bytes_per_second, int64_t queue_nanoseconds)
      : bytes_per_second_(bytes_per_second), queue_nanoseconds_(queue_nanoseconds) {}

  // When the last byte of a packet that comes at `now` is through; nothing: it is lost.
  std::optional<int64_t> Pass(int64_t now, size_t bytes) {
    const int64_t begin = std::max(now, free_);
    if (begin - now > queue_nanoseconds_) return std::nullopt;
    // On the wire a packet also has an Ethernet header, a checksum, a preamble and a gap.
    constexpr double kFrame = 38;
    free_ = begin +
            static_cast<int64_t>(1e9 * (static_cast<double>(bytes) + kFrame) / bytes_per_second_);
    return free_;
  }

 private:
  double bytes_per_second_;
  int64_t queue_nanoseconds_;
  int64_t free_ = 0;
};

}  // namespace ringwood
