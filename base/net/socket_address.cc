#include "base/net/socket_address.h"

#include <arpa/inet.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>

namespace ringwood {
StatusOr<SocketAddress> SocketAddress::Parse(const std::string& ip, uint16_t port) {
  SocketAddress address;
  Name& name = address.name_;
  if (inet_pton(AF_INET, ip.c_str(), &name.four.sin_addr) == 1) {
    name.any.sa_family = AF_INET;
  } else if (inet_pton(AF_INET6, ip.c_str(), &name.six.sin6_addr) == 1) {
    name.any.sa_family = AF_INET6;
  } else {
    return Invalid("\"" + ip + "\" is no IP address");
  }
  address.set_port(port);
  return address;
}

StatusOr<SocketAddress> SocketAddress::ParseDigits(const std::string& digits) {
  if (digits.size() != 32) return Invalid("\"" + digits + "\" is not 32 digits");
  std::string ip;
  for (size_t i = 0; i < digits.size(); i += 4) ip += (i > 0 ? ":" : "") + digits.substr(i, 4);
  return Parse(ip, 0);
}

SocketAddress SocketAddress::Of(const sockaddr* name) {
  SocketAddress address;
  address.name_.any.sa_family = name->sa_family;
  std::memcpy(&address.name_.largest, name, address.size());
  return address;
}

SocketAddress SocketAddress::OfSocket(int descriptor) {
  SocketAddress address;
  socklen_t size = sizeof address.name_;
  return getsockname(descriptor, &address.name_.any, &size) == 0 ? address : SocketAddress();
}

socklen_t SocketAddress::size() const {
  switch (family()) {
    case AF_INET:
      return sizeof(sockaddr_in);
    case AF_INET6:
      return sizeof(sockaddr_in6);
    default:
      return sizeof(sa_family_t);
  }
}

std::string SocketAddress::ip() const {
  char text[INET6_ADDRSTRLEN] = "";
  if (family() == AF_INET) inet_ntop(AF_INET, &name_.four.sin_addr, text, sizeof text);
  if (family() == AF_INET6) inet_ntop(AF_INET6, &name_.six.sin6_addr, text, sizeof text);
  return text;
}

uint16_t SocketAddress::port() const {
  if (family() == AF_INET) return ntohs(name_.four.sin_port);
  return family() == AF_INET6 ? ntohs(name_.six.sin6_port) : 0;
}

void SocketAddress::set_port(uint16_t port) {
  if (family() == AF_INET) name_.four.sin_port = htons(port);
  if (family() == AF_INET6) name_.six.sin6_port = htons(port);
}

int SocketAddress::prefix() const {
  if (family() == AF_INET) return std::popcount(name_.four.sin_addr.s_addr);
  int bits = 0;
  for (const uint8_t byte : name_.six.sin6_addr.s6_addr) bits += std::popcount(byte);
  return family() == AF_INET6 ? bits : 0;
}

bool SocketAddress::is_loopback() const {
  if (family() == AF_INET) return ntohl(name_.four.sin_addr.s_addr) >> 24 == 127;
  return family() == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&name_.six.sin6_addr);
}

bool SocketAddress::is_any() const {
  if (family() == AF_INET) return name_.four.sin_addr.s_addr == INADDR_ANY;
  return family() == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&name_.six.sin6_addr);
}

bool SocketAddress::is_link_local() const {
  return family() == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&name_.six.sin6_addr);
}

int BindTcp(const SocketAddress& address, bool reuse) {
  const int made = socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (made < 0) return -1;
  const int on = 1;
  if (address.family() == AF_INET6) setsockopt(made, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  if (bind(made, address.name(), address.size()) == 0) return made;
  // Sockets that all have this option share a port until one listens: so it is the second try.
  if (errno == EADDRINUSE && reuse) {
    setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(made, address.name(), address.size()) == 0) return made;
  }
  const int error = errno;
  close(made);
  errno = error;
  return -1;
}

int ListenTcp(int bound, int backlog) {
  const int on = 1;
  setsockopt(bound, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  return listen(bound, backlog);
}

}  // namespace ringwood
