#include "server/calls/peer_process.h"

#include <netinet/in.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <system_error>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "base/net/endpoint.h"
#include "base/net/socket_address.h"

namespace ringwood {
namespace {

// As the kernel's table begins an IPv4 address that an IPv6 socket has.
constexpr std::string_view kMapped = "0000000000000000FFFF0000";

// One end of a TCP connection, by its places in the kernel's tables: "0100007F:9C40".
struct End {
  std::string here, there;
  std::string inode;
};

std::string Unmapped(std::string place) {
  if (place.starts_with(kMapped)) place.erase(0, kMapped.size());
  return place;
}

// Empty: it is no TCP address.
std::string InTable(const std::string& peer) {
  const std::string plain = absl::StrReplaceAll(peer, {{"%5B", "["}, {"%5D", "]"}});
  const auto endpoint = ParseEndpoint(plain.substr(plain.find(':') + 1));
  if (!endpoint.ok()) return "";
  const auto address = SocketAddress::Parse(endpoint->host, static_cast<uint16_t>(endpoint->port));
  if (!address.ok()) return "";
  uint32_t words[4];  // printed as this machine's integers
  size_t count = 1;
  if (address->family() == AF_INET) {
    words[0] = reinterpret_cast<const sockaddr_in*>(address->name())->sin_addr.s_addr;
  } else {
    count = 4;
    std::memcpy(words, &reinterpret_cast<const sockaddr_in6*>(address->name())->sin6_addr,
                sizeof words);
  }
  std::string place;
  for (size_t i = 0; i < count; ++i) place += absl::StrFormat("%08X", words[i]);
  return Unmapped(place + absl::StrFormat(":%04X", endpoint->port));
}

// Those that have `place` at one of their ends.
std::vector<End> EndsAt(const std::string& place) {
  std::vector<End> ends;
  for (const char* table : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    std::ifstream lines(table);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream fields(line);
      std::string number, here, there, skipped, inode;
      fields >> number >> here >> there;
      for (int i = 0; i < 6; ++i) fields >> skipped;  // the state to the timeout
      fields >> inode;
      End end{Unmapped(here), Unmapped(there), inode};
      if (end.here == place || end.there == place) ends.push_back(std::move(end));
    }
  }
  return ends;
}

bool Holds(const std::string& process, const std::string& inode) {
  const std::string socket = "socket:[" + inode + "]";
  std::error_code error;
  std::filesystem::directory_iterator each("/proc/" + process + "/fd", error), end;
  for (; !error && each != end; each.increment(error)) {
    std::error_code closed;
    if (std::filesystem::read_symlink(each->path(), closed).string() == socket) return true;
  }
  return false;
}

}  // namespace

bool HoldsConnection(int process, const std::string& peer) {
  const std::string place = InTable(peer);
  if (place.empty()) return false;
  const std::vector<End> ends = EndsAt(place);
  // A port may have connections to several servers: this one's has its other end here.
  for (const End& theirs : ends) {
    if (theirs.here != place || !Holds(std::to_string(process), theirs.inode)) continue;
    for (const End& ours : ends) {
      if (ours.here == theirs.there && ours.there == place && Holds("self", ours.inode))
        return true;
    }
  }
  return false;
}

}  // namespace ringwood
