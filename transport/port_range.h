// The ports that a job may listen on, where a firewall leaves only some open.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace ringwood {

struct PortRange {
  uint16_t first = 0;  // 0: any port, the kernel's choice
  uint16_t last = 0;   // included
  bool any() const { return first == 0; }
};

// "20000-20099"; "" is any.
StatusOr<PortRange> ParsePortRange(const std::string& text);
std::string ToString(const PortRange& range);  // "20000-20099", or "any"

// What to try, one after the other: each port of the range once, rising from one that `seed` picks
// and around, so that processes which start together seldom meet. {0} where any will do.
std::vector<uint16_t> PortsToTry(const PortRange& range, uint64_t seed);

// Listens on the port of an IPv4 address for a moment: the port, which the kernel chooses for 0.
// Exhausted: somebody listens there.
StatusOr<uint16_t> ProbePort(const std::string& ip, uint16_t port);

// The first `count` of them on which nobody listens just now, for those who cannot try one after
// the other; {0} where any will do. Else ShortOfPorts.
StatusOr<std::vector<uint16_t>> FreePorts(const PortRange& range, const std::string& ip,
                                          uint64_t seed, size_t count);

// Whether a socket without SO_REUSEADDR, as UCX makes them, can be bound to it just now: nobody
// listens there, and no connection that ended within the last minute is remembered.
bool IsFree(const std::string& ip, uint16_t port);

// Says how many ports are needed and how the range stands. Exhausted; Unavailable, which a restart
// mends, where the connections of processes that have ended still keep some.
Status ShortOfPorts(const PortRange& range, const std::string& ip, size_t needed);

}  // namespace ringwood
