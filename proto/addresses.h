// Where a coordinator may be: "h1:7070", or "h1:7070,h2:7070" where of several servers one leads
// and the others refuse connections.
#pragma once

#include <string>

namespace ringwood {

inline bool IsOneAddress(const std::string& addresses) {
  return addresses.find(',') == std::string::npos;
}

// What gRPC connects to: a single address as it is; of several, whose names are looked up here, the
// first that takes a connection. A name that is not known now is left out, and so is an address of
// the family (IPv4 or IPv6) that fewer of them have.
std::string ChannelTarget(const std::string& addresses);

}  // namespace ringwood
