#include "launch/network.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/net/endpoint.h"
#include "base/net/socket_address.h"
#include "transport/interface.h"
#include "transport/port_range.h"

namespace ringwood {

namespace {

// A socket that is bound and does not listen; -1: somebody has the port.
StatusOr<int> BindPort(const std::string& address, int port, bool reuse) {
  RW_ASSIGN_OR_RETURN(const SocketAddress name,
                      SocketAddress::Parse(address, static_cast<uint16_t>(port)));
  const int held = BindTcp(name, reuse);
  if (held < 0 && errno == EADDRINUSE) return -1;
  if (held < 0) {
    return Refused(
        absl::StrFormat("cannot use %s: %s", ToString({address, port}), std::strerror(errno)));
  }
  // Only from now on others may share it: a port that is held is taken for those who would hold it.
  const int on = 1;
  ::setsockopt(held, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  return held;
}

}  // namespace

StatusOr<std::string> AddressOf(const std::string& interface) {
  if (interface.empty()) return std::string("127.0.0.1");
  RW_ASSIGN_OR_RETURN(const std::string name, ChooseInterface(interface));
  return InterfaceAddress(name);
}

StatusOr<Environment> InterfaceVariables(const std::string& interface) {
  if (interface.empty()) return Environment();
  RW_ASSIGN_OR_RETURN(const std::string name, ChooseInterface(interface));
  return Environment{{"GLOO_SOCKET_IFNAME", name}, {"NCCL_SOCKET_IFNAME", "=" + name}};
}

StatusOr<HeldPort> HeldPort::Take(const std::string& address, const std::string& range) {
  RW_ASSIGN_OR_RETURN(const PortRange ports, ParsePortRange(range));
  // The second time ports count as well on which connections of an earlier job are still ending.
  for (const bool reuse : {false, true}) {
    for (int port = ports.last; port >= ports.first; --port) {
      if (reuse && !ProbePort(address, static_cast<uint16_t>(port)).ok()) continue;
      RW_ASSIGN_OR_RETURN(const int socket, BindPort(address, port, reuse));
      if (socket < 0) continue;
      return HeldPort(socket, SocketAddress::OfSocket(socket).port());
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

}  // namespace ringwood
