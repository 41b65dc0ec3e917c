#include "transport/interface.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>

#include <fstream>
#include <sstream>
#include <vector>

#include "absl/strings/str_format.h"

namespace ringwood {
namespace {

struct Interface {
  std::string name;
  std::string address;
  bool loopback = false;
};

// Those that are up and have an IPv4 address, in the kernel's order.
std::vector<Interface> List() {
  std::vector<Interface> list;
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return list;
  for (const ifaddrs* i = first; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr || i->ifa_addr->sa_family != AF_INET) continue;
    if ((i->ifa_flags & IFF_UP) == 0) continue;
    char text[INET_ADDRSTRLEN];
    const auto* address = reinterpret_cast<const sockaddr_in*>(i->ifa_addr);
    inet_ntop(AF_INET, &address->sin_addr, text, sizeof text);
    list.push_back({i->ifa_name, text, (i->ifa_flags & IFF_LOOPBACK) != 0});
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
      "there is no network interface \"%s\" that is up and has an IPv4 address; there are: %s",
      name, known.empty() ? "none" : known));
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
