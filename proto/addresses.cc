#include "proto/addresses.h"

#include <netdb.h>

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/net/endpoint.h"
#include "base/net/socket_address.h"

namespace ringwood {
namespace {

using Found = std::unique_ptr<addrinfo, decltype([](addrinfo* all) { freeaddrinfo(all); })>;

// "10.0.0.1:7070", "[fd00::1]:7070"; "" where the name has no address of the family.
std::string Numeric(const std::string& address, int family) {
  auto endpoint = ParseEndpoint(address);
  addrinfo hints{};
  hints.ai_family = family;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* all = nullptr;
  if (!endpoint.ok() || getaddrinfo(endpoint->host.c_str(), nullptr, &hints, &all) != 0) return "";
  const Found found(all);
  endpoint->host = SocketAddress::Of(found->ai_addr).ip();
  return ToString(*endpoint);
}

std::vector<std::string> AllNumeric(const std::vector<std::string>& addresses, int family) {
  std::vector<std::string> numeric;
  for (const std::string& address : addresses) {
    if (std::string known = Numeric(address, family); !known.empty()) {
      numeric.push_back(std::move(known));
    }
  }
  return numeric;
}

}  // namespace

std::string ChannelTarget(const std::string& addresses) {
  if (IsOneAddress(addresses)) return addresses;
  const std::vector<std::string> all = absl::StrSplit(addresses, ',');
  const std::vector<std::string> four = AllNumeric(all, AF_INET), six = AllNumeric(all, AF_INET6);
  if (six.size() > four.size()) return "ipv6:" + absl::StrJoin(six, ",");
  return "ipv4:" + absl::StrJoin(four, ",");
}

}  // namespace ringwood
