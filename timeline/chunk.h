// What one chunk of a group did on this node's transport.
#pragma once

#include <cstdint>
#include <vector>

#include "transport/frame.h"

namespace ringwood {

struct TimelineChunk {
  struct Touch {  // messages to and from one peer; times are 0 where there was none
    int peer = 0;
    int64_t first_sent_nanoseconds = 0;      // given to the transport
    int64_t first_received_nanoseconds = 0;  // there in full
  };
  Lane lane = Lane::kDense;
  uint64_t round = 0;
  uint32_t group = 0;
  uint32_t chunk = 0;
  int64_t begin_nanoseconds = 0;  // first message given to the transport, or first one received
  int64_t end_nanoseconds = 0;    // last one sent or received
  uint64_t sent_bytes = 0;
  std::vector<Touch> touches;
};

}  // namespace ringwood
