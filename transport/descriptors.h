// File descriptors: connections take some, and a process may open a limited number of files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/status.h"

namespace ringwood {

struct DescriptorLimits {
  uint64_t open = 0;  // by this process
  uint64_t soft = 0;
  uint64_t hard = 0;
};

struct ConnectionNeed {
  size_t wanted = 0;  // connections, if there is room
  size_t needed = 0;  // without which the node cannot take part
  size_t each = 1;    // descriptors of one
};

struct DescriptorRoom {
  uint64_t soft = 0;       // the limit to set
  size_t connections = 0;  // that fit below it, beside the descriptors for everything else
};

// Refused, with the numbers, if the hard limit does not leave room for what is needed. The soft
// limit is raised no further than is wanted: programs that use select() break with descriptors
// above 1023.
StatusOr<DescriptorRoom> RoomFor(const DescriptorLimits& now, const ConnectionNeed& need);

// Raises this process's soft limit (RLIMIT_NOFILE) as RoomFor says; never lowers it. Returns how
// many connections there may be.
StatusOr<size_t> ReserveConnections(const ConnectionNeed& need);

// The error of a connection to `peer` that is one too many.
Status NoRoomFor(const std::string& peer, size_t connections);

}  // namespace ringwood
