// "HOST:PORT": where a process listens. An IPv6 address stands in brackets, which tell it from the
// port (RFC 3986): "127.0.0.1:7070", "h1:7070", "[fd00::1]:7070".
#pragma once

#include <string>

#include "base/status.h"

namespace ringwood {

struct Endpoint {
  std::string host;  // a name or an address, without brackets; empty: not said
  int port = 0;
};

// ":0" has no host. Invalid: no port of 0 to 65535, or an IPv6 address without brackets.
StatusOr<Endpoint> ParseEndpoint(const std::string& text);
std::string ToString(const Endpoint& endpoint);

// Of "HOST:PORT,HOST:PORT", what is wrong with the first that is not one.
Status CheckEndpoints(const std::string& list);

// The host of "HOST:PORT", without brackets; the whole text where it has no port.
std::string HostOf(const std::string& endpoint);

// True for an address that does not leave the machine, "127.0.0.1" or "::1", and for "localhost".
bool IsLoopbackHost(const std::string& host);

}  // namespace ringwood
