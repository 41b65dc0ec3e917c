// Decides where a server may listen.
#pragma once

#include <string>

#include "base/status.h"
#include "transport/port_range.h"

namespace ringwood {

struct ListenRequest {
  std::string listen;  // HOST:PORT with an IP address or "localhost"
  bool page = false;  // the status page, whose certificate is another
  bool insecure = false;
  bool tls = false;
  bool trusted_fabric = false;
  std::string network_interface = {};
};

// "127.0.0.1:4000". TLS is allowed everywhere, plaintext on loopback with `insecure`, and on the
// one interface whose network the operator declared private (trusted_fabric). All interfaces at
// once are always refused. Denied tells how to fix it.
StatusOr<std::string> ChooseListen(const ListenRequest& request);

// The address with port 0 replaced by a port of `ports`.
StatusOr<std::string> TakePort(const std::string& address, const PortRange& ports);

}  // namespace ringwood
