// An IPv4 or IPv6 address with a port, as the kernel takes it.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <string>

#include "base/status.h"

namespace ringwood {

class SocketAddress {
 public:
  SocketAddress() = default;

  // `ip`: "10.0.0.1" or "fd00::1", without brackets. Invalid: it is neither.
  static StatusOr<SocketAddress> Parse(const std::string& ip, uint16_t port);

  // 32 hexadecimal digits, as the tables of /proc/net write an IPv6 address.
  static StatusOr<SocketAddress> ParseDigits(const std::string& digits);

  // Of a name that the kernel or a library has filled in. One that is neither IPv4 nor IPv6 has no
  // ip and the port 0.
  static SocketAddress Of(const sockaddr* name);

  // The local address of a socket; without a family if the descriptor is no socket.
  static SocketAddress OfSocket(int descriptor);

  int family() const { return name_.any.sa_family; }  // AF_INET, AF_INET6
  const sockaddr* name() const { return &name_.any; }
  socklen_t size() const;

  std::string ip() const;  // numeric, without brackets or scope; "" of another family
  uint16_t port() const;   // 0: any, or of another family
  void set_port(uint16_t port);
  int prefix() const;          // of a netmask, in bits
  bool is_loopback() const;    // 127.0.0.0/8, ::1
  bool is_any() const;         // 0.0.0.0, ::
  bool is_link_local() const;  // fe80::/10, which means nothing without a scope; never of IPv4

 private:
  union Name {
    sockaddr_storage largest{};
    sockaddr any;
    sockaddr_in four;
    sockaddr_in6 six;
  };
  Name name_;
};

// Of an IP address as text.
inline bool IsIpv6(const std::string& ip) { return ip.find(':') != std::string::npos; }

// A TCP socket of the address's family, bound to it; the caller owns the descriptor. -1: failed,
// and errno says why. `reuse`: also binds a port at which connections of a closed ListenTcp socket
// are in TIME-WAIT.
int BindTcp(const SocketAddress& address, bool reuse);

// listen(), for a socket of BindTcp. Once it is closed, its port can be bound at once with `reuse`.
int ListenTcp(int bound, int backlog);

}  // namespace ringwood
