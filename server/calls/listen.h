// Where a server may listen, decided before it does.
#pragma once

#include <string>

#include "base/status.h"
#include "transport/port_range.h"

namespace ringwood {

struct ListenRequest {
  std::string listen;  // HOST:PORT, an IPv4 address, "localhost", or [IPv6]
  bool insecure = false;
  bool trusted_fabric = false;
  std::string network_interface;
};

// "127.0.0.1:4000". Plaintext goes over loopback when the caller said so (insecure), or over the
// one interface whose network the operator declared private (trusted_fabric); all interfaces at
// once are refused, whatever the flags say. Denied names the remedy.
StatusOr<std::string> ChooseListen(const ListenRequest& request);

// The address with a port of `ports` in the place of port 0.
StatusOr<std::string> TakePort(const std::string& address, const PortRange& ports);

}  // namespace ringwood
