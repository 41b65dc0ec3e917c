// What a wire format of dense sums costs this machine's processor, measured.
#pragma once

#include <string_view>

namespace ringwood {

// Seconds a byte of the tensor's fp32, on one core.
struct WireSpeed {
  double encode_seconds_per_byte = 0;
  double decode_seconds_per_byte = 0;
};

// The best of three passes over 4 MiB on the calling thread, some milliseconds altogether. "fp32"
// costs nothing.
WireSpeed MeasureWireSpeed(std::string_view wire);

}  // namespace ringwood
