#include "server/calls/listen.h"

#include "absl/strings/str_format.h"
#include "base/net/endpoint.h"
#include "base/net/socket_address.h"
#include "base/random.h"
#include "transport/interface.h"

namespace ringwood {
namespace {

// With a numeric host.
StatusOr<Endpoint> Parse(const std::string& text) {
  auto endpoint = ParseEndpoint(text);
  if (endpoint.ok() && endpoint->host == "localhost") endpoint->host = "127.0.0.1";
  const auto address = SocketAddress::Parse(endpoint.ok() ? endpoint->host : "", 0);
  if (address.ok()) return Endpoint{address->ip(), endpoint->port};
  return Invalid("cannot listen on \"" + text +
                 "\": give ADDRESS:PORT with an IP address, for example 127.0.0.1:4000 or "
                 "[fd00::1]:4000");
}

bool IsAny(const std::string& host) {
  const auto address = SocketAddress::Parse(host, 0);
  return address.ok() && address->is_any();
}

}  // namespace

StatusOr<std::string> ChooseListen(const ListenRequest& request) {
  RW_ASSIGN_OR_RETURN(const Endpoint address, Parse(request.listen));
  const std::string chosen = ToString(address);
  const std::string certificate = request.page ? "--http-tls (a folder with cert.pem and key.pem)"
                                               : "--identity (`ringwood ca issue` makes it)";
  if (IsLoopbackHost(address.host)) {
    if (request.tls || request.insecure || request.trusted_fabric) return chosen;
    return Denied((request.page ? "the page on " : "the control plane on ") + chosen +
                  " has no certificate: give one with " + certificate +
                  ", or say --insecure to accept plaintext on loopback");
  }
  if (request.tls && !IsAny(address.host)) return chosen;
  if (request.tls) {
    return Denied("listening on all interfaces (" + chosen +
                  ") is refused: name the address of the one that the job uses");
  }
  if (!request.trusted_fabric || request.network_interface.empty()) {
    return Denied("listening on " + chosen + " without TLS: give a certificate with " +
                  certificate +
                  ", declare "
                  "its network private with --trusted-fabric --network-interface IF, or listen on "
                  "127.0.0.1 with --insecure");
  }
  RW_ASSIGN_OR_RETURN(const std::string own, InterfaceAddress(request.network_interface));
  if (own == address.host) return chosen;
  return Denied(absl::StrFormat(
      "--trusted-fabric covers %s (%s) only, not %s: listen on %s, or name the other interface",
      request.network_interface, own, address.host, ToString({own, address.port})));
}

StatusOr<std::string> TakePort(const std::string& address, const PortRange& ports) {
  RW_ASSIGN_OR_RETURN(Endpoint parsed, Parse(address));
  if (parsed.port != 0) return address;
  RW_ASSIGN_OR_RETURN(const auto free, FreePorts(ports, parsed.host, Unpredictable(), 1));
  parsed.port = free[0];
  return ToString(parsed);
}

}  // namespace ringwood
