#include "server/calls/listen.h"

#include <arpa/inet.h>

#include <charconv>

#include "absl/strings/str_format.h"
#include "base/random.h"
#include "transport/interface.h"

namespace ringwood {
namespace {

struct Address {
  std::string host;
  int port = 0;
};

StatusOr<Address> Parse(const std::string& text) {
  const size_t colon = text.rfind(':');
  Address address;
  if (colon != std::string::npos) {
    address.host = text.substr(0, colon);
    const char* end = text.data() + text.size();
    auto [stop, error] = std::from_chars(text.data() + colon + 1, end, address.port);
    if (error == std::errc() && stop == end && address.port >= 0 && address.port <= 65535) {
      if (address.host == "localhost") address.host = "127.0.0.1";
      in_addr parsed;
      if (inet_pton(AF_INET, address.host.c_str(), &parsed) == 1) return address;
    }
  }
  return Invalid("cannot listen on \"" + text +
                 "\": give ADDRESS:PORT with an IPv4 address, for example 127.0.0.1:4000");
}

bool IsLoopbackAddress(const std::string& host) { return host.rfind("127.", 0) == 0; }

}  // namespace

StatusOr<std::string> ChooseListen(const ListenRequest& request) {
  RW_ASSIGN_OR_RETURN(const Address address, Parse(request.listen));
  const std::string chosen = absl::StrFormat("%s:%d", address.host, address.port);
  if (IsLoopbackAddress(address.host)) {
    if (request.tls || request.insecure || request.trusted_fabric) return chosen;
    return Denied(
        "the control plane on " + chosen +
        " has no certificate: give one with --identity (`ringwood ca issue` makes it), or "
        "say --insecure to accept plaintext on loopback");
  }
  if (request.tls && address.host != "0.0.0.0") return chosen;
  if (request.tls) {
    return Denied("listening on all interfaces (" + chosen +
                  ") is refused: name the address of the one that the job uses");
  }
  if (!request.trusted_fabric || request.network_interface.empty()) {
    return Denied(
        "listening on " + chosen +
        " without TLS: give a certificate with --identity (`ringwood ca issue` makes it), declare "
        "its network private with --trusted-fabric --network-interface IF, or listen on "
        "127.0.0.1 with --insecure");
  }
  RW_ASSIGN_OR_RETURN(const std::string own, InterfaceAddress(request.network_interface));
  if (own == address.host) return chosen;
  return Denied(absl::StrFormat(
      "--trusted-fabric covers %s (%s) only, not %s: listen on %s:%d, or name the other interface",
      request.network_interface, own, address.host, own, address.port));
}

StatusOr<std::string> TakePort(const std::string& address, const PortRange& ports) {
  RW_ASSIGN_OR_RETURN(const Address parsed, Parse(address));
  if (parsed.port != 0) return address;
  RW_ASSIGN_OR_RETURN(const auto free, FreePorts(ports, parsed.host, Unpredictable(), 1));
  return absl::StrFormat("%s:%d", parsed.host, free[0]);
}

}  // namespace ringwood
