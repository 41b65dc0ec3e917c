// Addresses and ports of this host.
#pragma once

#include <string>

#include "base/status.h"
#include "launch/hosts.h"

namespace ringwood {

// The address of the network interface `interface` (NCCL_SOCKET_IFNAME's syntax); empty: loopback.
StatusOr<std::string> AddressOf(const std::string& interface);

// What tells Gloo and NCCL, which a trainer may use besides, of the same interface: by themselves
// they take another one, Gloo that of the host's name. Empty: nothing.
StatusOr<Environment> InterfaceVariables(const std::string& interface);

// A TCP port that is reserved as long as this lives: the kernel gives it to nobody else, and a
// socket with SO_REUSEADDR (PyTorch's store has it) can listen on it.
class HeldPort {
 public:
  // At `address`; if `range` ("20000-20099") is given, its last free port.
  static StatusOr<HeldPort> Take(const std::string& address, const std::string& range);
  HeldPort(HeldPort&& other) noexcept;
  HeldPort& operator=(HeldPort&& other) noexcept;
  ~HeldPort();

  int port() const { return port_; }

 private:
  HeldPort(int socket, int port) : socket_(socket), port_(port) {}
  int socket_;
  int port_;
};

// The ports of `range` for everything else that listens: all but the last, which HeldPort tries
// first. A range of one port, and the empty one, stay as they are.
std::string WithoutHeldPort(const std::string& range);

}  // namespace ringwood
