// The ports that a job may listen on, where a firewall opens only some.
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

// The ports in the order to try: each once, rising from one that `seed` picks and wrapping around,
// so that processes which start together seldom collide. {0} for any port.
std::vector<uint16_t> PortsToTry(const PortRange& range, uint64_t seed);

// Listens on the port of an IPv4 address for a moment and returns the port (for 0 the kernel
// chooses). Exhausted: it is in use.
StatusOr<uint16_t> ProbePort(const std::string& ip, uint16_t port);

// The first `count` of them that are free now, for callers that cannot try one after the other; {0}
// for any port. Else ShortOfPorts.
StatusOr<std::vector<uint16_t>> FreePorts(const PortRange& range, const std::string& ip,
                                          uint64_t seed, size_t count);

// Whether a socket without SO_REUSEADDR, as UCX makes them, can be bound to it now: nobody listens
// there, and no connection is in TIME-WAIT.
bool IsFree(const std::string& ip, uint16_t port);

// The error that tells how many ports are needed, in use and free: Exhausted, or Unavailable (a
// restart helps) if connections of ended processes still hold some.
Status ShortOfPorts(const PortRange& range, const std::string& ip, size_t needed);

}  // namespace ringwood
