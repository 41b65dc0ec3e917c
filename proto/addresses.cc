#include "proto/addresses.h"

#include <arpa/inet.h>
#include <netdb.h>

#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace ringwood {
namespace {

// "10.0.0.1:7070", or "" where the name is not known.
std::string Numeric(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return "";
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(address.substr(0, colon).c_str(), nullptr, &hints, &found) != 0) return "";
  char text[INET_ADDRSTRLEN] = "";
  inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(found->ai_addr)->sin_addr, text,
            sizeof text);
  freeaddrinfo(found);
  return text + address.substr(colon);
}

}  // namespace

std::string ChannelTarget(const std::string& addresses) {
  if (IsOneAddress(addresses)) return addresses;
  std::vector<std::string> numeric;
  for (const std::string& address : std::vector<std::string>(absl::StrSplit(addresses, ','))) {
    if (std::string known = Numeric(address); !known.empty()) numeric.push_back(std::move(known));
  }
  return "ipv4:" + absl::StrJoin(numeric, ",");
}

}  // namespace ringwood
