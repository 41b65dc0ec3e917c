#include "launch/network.h"

#include <charconv>

#include "absl/strings/str_format.h"
#include "base/random.h"
#include "transport/interface.h"
#include "transport/port_range.h"

namespace ringwood {

StatusOr<std::string> AddressOf(const std::string& interface) {
  if (interface.empty()) return std::string("127.0.0.1");
  RW_ASSIGN_OR_RETURN(const std::string name, ChooseInterface(interface));
  return InterfaceAddress(name);
}

StatusOr<int> FreePort(const std::string& address, const std::string& range) {
  RW_ASSIGN_OR_RETURN(const PortRange ports, ParsePortRange(range));
  if (ports.any()) return ProbePort(address, 0);
  RW_ASSIGN_OR_RETURN(const auto free, FreePorts(ports, address, Unpredictable(), 1));
  return free[0];
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
