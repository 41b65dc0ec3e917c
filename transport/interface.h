// Network interfaces of this machine, by name.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "base/status.h"

namespace ringwood {

// The address of `interface`: its first IPv4 address ("192.168.1.3"); where it has none, an IPv6
// address ("fd00::3") that other hosts can reach: not a link-local one, and one that privacy
// extensions renew only if there is no other. NotFound lists the existing interfaces.
StatusOr<std::string> InterfaceAddress(const std::string& interface);

// True for "lo" and other interfaces with the loopback flag.
StatusOr<bool> IsLoopback(const std::string& interface);

// Bytes that passed an interface since it was created, headers included.
struct InterfaceBytes {
  uint64_t received = 0, sent = 0;
};
StatusOr<InterfaceBytes> BytesOfInterface(const std::string& interface);

// Reads NCCL_SOCKET_IFNAME's notation (NCCL user guide, environment variables): "eth" = first
// interface whose name starts so, "=eth0" = exactly that, "^docker,br" = none of these, lists by
// commas. Empty: the first that is up and is neither loopback nor a container bridge, else "lo".
StatusOr<std::string> ChooseInterface(const std::string& nccl_style_spec);

// The IPv6 addresses in the text of /proc/net/if_inet6 that are temporary (privacy extensions),
// deprecated, or not checked for duplicates yet. For tests.
std::set<std::string> PassingAddresses(const std::string& table);

}  // namespace ringwood
