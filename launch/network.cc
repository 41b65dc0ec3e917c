#include "launch/network.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <utility>

#include "absl/strings/str_format.h"
#include "transport/interface.h"
#include "transport/port_range.h"

namespace ringwood {

namespace {

// A socket that is bound and does not listen; -1: somebody has the port.
StatusOr<int> BindPort(const std::string& address, int port, bool reuse) {
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(static_cast<uint16_t>(port));
  if (::inet_pton(AF_INET, address.c_str(), &name.sin_addr) != 1) {
    return Invalid("\"" + address + "\" is no IPv4 address");
  }
  const int held = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (held < 0) return Exhausted(std::string("cannot make a socket: ") + std::strerror(errno));
  const int on = 1;
  if (reuse) ::setsockopt(held, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const bool bound = ::bind(held, reinterpret_cast<sockaddr*>(&name), sizeof name) == 0;
  const int error = errno;
  // Only from now on others may share it: a port that is held is taken for those who would hold it.
  if (bound) ::setsockopt(held, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bound) return held;
  ::close(held);
  if (error == EADDRINUSE) return -1;
  return Refused(absl::StrFormat("cannot use %s:%d: %s", address, port, std::strerror(error)));
}

}  // namespace

StatusOr<std::string> AddressOf(const std::string& interface) {
  if (interface.empty()) return std::string("127.0.0.1");
  RW_ASSIGN_OR_RETURN(const std::string name, ChooseInterface(interface));
  return InterfaceAddress(name);
}

StatusOr<HeldPort> HeldPort::Take(const std::string& address, const std::string& range) {
  RW_ASSIGN_OR_RETURN(const PortRange ports, ParsePortRange(range));
  // The second time ports count as well on which connections of an earlier job are still ending.
  for (const bool reuse : {false, true}) {
    for (int port = ports.last; port >= ports.first; --port) {
      if (reuse && !ProbePort(address, static_cast<uint16_t>(port)).ok()) continue;
      RW_ASSIGN_OR_RETURN(const int socket, BindPort(address, port, reuse));
      if (socket < 0) continue;
      sockaddr_in name{};
      socklen_t length = sizeof name;
      ::getsockname(socket, reinterpret_cast<sockaddr*>(&name), &length);
      return HeldPort(socket, ntohs(name.sin_port));
    }
  }
  return Exhausted(absl::StrFormat(
      "no port of %s on %s is free for MASTER_PORT; give a wider --port-range", range, address));
}

HeldPort::HeldPort(HeldPort&& other) noexcept
    : socket_(std::exchange(other.socket_, -1)), port_(other.port_) {}

HeldPort& HeldPort::operator=(HeldPort&& other) noexcept {
  std::swap(socket_, other.socket_);
  std::swap(port_, other.port_);
  return *this;
}

HeldPort::~HeldPort() {
  if (socket_ >= 0) ::close(socket_);
}

std::string WithoutHeldPort(const std::string& range) {
  auto ports = ParsePortRange(range);
  if (!ports.ok() || ports->any() || ports->first == ports->last) return range;
  --ports->last;
  return ToString(*ports);
}

StatusOr<Endpoint> ParseEndpoint(const std::string& text) {
  const size_t colon = text.rfind(':');
  Endpoint endpoint;
  bool good = colon != std::string::npos;
  if (good) {
    endpoint.host = text.substr(0, colon);
    const char* begin = text.data() + colon + 1;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(begin, end, endpoint.port);
    good = error == std::errc() && stop == end && endpoint.port >= 0 && endpoint.port <= 65535;
  }
  if (!good) return Invalid(absl::StrFormat("\"%s\" is not HOST:PORT (port 0 to 65535)", text));
  return endpoint;
}

}  // namespace ringwood
