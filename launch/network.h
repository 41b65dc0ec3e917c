// Addresses and ports of this host.
#pragma once

#include <string>

#include "base/status.h"

namespace ringwood {

// The address of the card that `interface` names (NCCL_SOCKET_IFNAME's syntax); empty: loopback.
StatusOr<std::string> AddressOf(const std::string& interface);

// A TCP port, of `range` where it is given ("20000-20099"), that nobody listens on at `address`
// just now. Another process may take it before it is used: whoever binds it must be ready for that.
StatusOr<int> FreePort(const std::string& address, const std::string& range);

// "127.0.0.1:41234", ":0" → host and port. Invalid: no colon, or the port is not 0..65535.
struct Endpoint {
  std::string host;
  int port = 0;
};
StatusOr<Endpoint> ParseEndpoint(const std::string& text);

}  // namespace ringwood
