#include "transport/interface.h"

#include <ifaddrs.h>
#include <linux/if_addr.h>
#include <net/if.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/net/socket_address.h"

namespace ringwood {
namespace {

struct Interface {
  std::string name;
  std::string address;
  bool loopback = false;
};

// Smaller is better; nothing: no other host can reach it, or it is not in use yet.
std::optional<int> Rank(const SocketAddress& address, const std::set<std::string>& passing) {
  if (address.family() == AF_INET) return 0;
  if (address.family() != AF_INET6 || address.is_link_local()) return std::nullopt;
  return passing.count(address.ip()) == 0 ? 1 : 2;
}

// Those that are up and have an address: first those with IPv4, each in the kernel's order.
std::vector<Interface> List() {
  std::vector<Interface> list;
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return list;
  std::ifstream table("/proc/self/net/if_inet6");
  const std::set<std::string> passing =
      PassingAddresses({std::istreambuf_iterator<char>(table), std::istreambuf_iterator<char>()});
  for (int rank = 0; rank < 3; ++rank) {
    for (const ifaddrs* i = first; i != nullptr; i = i->ifa_next) {
      if (i->ifa_addr == nullptr || (i->ifa_flags & IFF_UP) == 0) continue;
      const SocketAddress address = SocketAddress::Of(i->ifa_addr);
      if (Rank(address, passing) != rank) continue;
      const auto same = [i](const Interface& known) { return known.name == i->ifa_name; };
      if (rank > 0 && std::any_of(list.begin(), list.end(), same)) continue;
      list.push_back({i->ifa_name, address.ip(), (i->ifa_flags & IFF_LOOPBACK) != 0});
    }
  }
  freeifaddrs(first);
  return list;
}

StatusOr<Interface> Find(const std::string& name) {
  std::string known;
  for (const Interface& interface : List()) {
    if (interface.name == name) return interface;
    known += (known.empty() ? "" : ", ") + interface.name;
  }
  return NotFound(absl::StrFormat(
      "there is no network interface \"%s\" that is up and has an address; there are: %s", name,
      known.empty() ? "none" : known));
}

std::vector<std::string> Split(const std::string& list) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    if (end > begin) parts.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

}  // namespace

std::set<std::string> PassingAddresses(const std::string& table) {
  // Linux, net/ipv6/addrconf.c: address, index, prefix, scope and flags in hexadecimal, name.
  std::set<std::string> passing;
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string digits;
    unsigned index = 0, prefix = 0, scope = 0, flags = 0;
    words >> digits >> std::hex >> index >> prefix >> scope >> flags;
    if (!words) continue;
    if ((flags & (IFA_F_TEMPORARY | IFA_F_DEPRECATED | IFA_F_TENTATIVE | IFA_F_DADFAILED)) == 0) {
      continue;
    }
    if (const auto address = SocketAddress::ParseDigits(digits); address.ok()) {
      passing.insert(address->ip());
    }
  }
  return passing;
}

StatusOr<std::string> InterfaceAddress(const std::string& interface) {
  RW_ASSIGN_OR_RETURN(const Interface found, Find(interface));
  return found.address;
}

StatusOr<bool> IsLoopback(const std::string& interface) {
  RW_ASSIGN_OR_RETURN(const Interface found, Find(interface));
  return found.loopback;
}

StatusOr<InterfaceBytes> BytesOfInterface(const std::string& interface) {
  // Linux, proc(5): after the name 8 numbers of what was received, then those of what was sent.
  std::ifstream table("/proc/self/net/dev");
  for (std::string line; std::getline(table, line);) {
    const size_t colon = line.find(':');
    const size_t name = line.find_first_not_of(' ');
    if (colon == std::string::npos || line.substr(name, colon - name) != interface) continue;
    std::istringstream numbers(line.substr(colon + 1));
    InterfaceBytes bytes;
    numbers >> bytes.received;
    for (int column = 1; column < 9; ++column) numbers >> bytes.sent;
    if (numbers) return bytes;
  }
  return NotFound("the kernel counts nothing for the interface " + interface);
}

StatusOr<std::string> ChooseInterface(const std::string& nccl_style_spec) {
  std::string spec = nccl_style_spec.empty() ? "^lo,docker,br-,virbr,veth" : nccl_style_spec;
  const bool exclude = spec[0] == '^';
  if (exclude) spec.erase(0, 1);
  const bool exact = !spec.empty() && spec[0] == '=';
  if (exact) spec.erase(0, 1);
  const std::vector<std::string> patterns = Split(spec);
  std::string known;
  for (const Interface& interface : List()) {
    bool matches = false;
    for (const std::string& pattern : patterns) {
      matches |= exact ? interface.name == pattern : interface.name.rfind(pattern, 0) == 0;
    }
    if (matches != exclude) return interface.name;
    known += (known.empty() ? "" : ", ") + interface.name;
  }
  if (nccl_style_spec.empty() && Find("lo").ok()) return std::string("lo");
  return NotFound(absl::StrFormat("no network interface fits \"%s\"; there are: %s",
                                  nccl_style_spec, known.empty() ? "none" : known));
}

}  // namespace ringwood
