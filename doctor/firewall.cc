#include "doctor/firewall.h"

#include "absl/strings/str_format.h"
#include "base/net/socket_address.h"

namespace ringwood {
StatusOr<FirewallRequest> FirewallOf(const ClusterFacts& facts, const PortRange& ports) {
  if (ports.any()) {
    return Invalid(
        "--firewall needs --port-range FIRST-LAST, the ports that the job will be given");
  }
  FirewallRequest request;
  request.ports = ports;
  for (const HostFacts& host : facts.hosts) {
    const std::string why = host.error.empty() ? host.interface_error : host.error;
    if (host.address.empty()) {
      return Invalid(absl::StrFormat("the address of host %s is not known: %s", host.host, why));
    }
    if (request.interface_name.empty()) request.interface_name = host.interface_name;
    if (host.interface_name != request.interface_name) {
      return Invalid(absl::StrFormat(
          "the data plane's interface is %s on host %s and %s on host %s; print the rules for each "
          "group of hosts that agree",
          request.interface_name, facts.hosts[0].host, host.interface_name, host.host));
    }
    request.members.push_back({host.host, host.address});
    if (IsIpv6(host.address) != IsIpv6(request.members[0].address)) {
      return Invalid(absl::StrFormat(
          "host %s is at %s and host %s at %s, which cannot connect: give both an address of IPv4, "
          "or both only such of IPv6",
          facts.hosts[0].host, request.members[0].address, host.host, host.address));
    }
  }
  return request;
}

std::string NftRules(const FirewallRequest& request) {
  std::string elements;
  for (const FirewallRequest::Member& member : request.members) {
    elements += absl::StrFormat("      %s,  # %s\n", member.address, member.host);
  }
  const bool ipv6 = !request.members.empty() && IsIpv6(request.members[0].address);
  const std::string ports = absl::StrFormat("%d-%d", request.ports.first, request.ports.last);
  return absl::StrFormat(
      "#!/usr/sbin/nft -f\n"
      "# Ringwood: at %s only these hosts may connect to TCP ports %s.\n"
      "# For every one of them. Where another table drops by default, accept the same there.\n"
      "# Remove: nft delete table inet ringwood\n"
      "table inet ringwood\n"
      "delete table inet ringwood\n"
      "table inet ringwood {\n"
      "  set members {\n"
      "    type %s\n"
      "    elements = {\n"
      "%s"
      "    }\n"
      "  }\n"
      "  chain input {\n"
      "    type filter hook input priority filter; policy accept;\n"
      "    iifname != \"%s\" accept\n"
      "    %s saddr @members accept\n"
      "    tcp dport %s tcp flags & (fin | syn | rst | ack) == syn counter drop\n"
      "  }\n"
      "}\n",
      request.interface_name, ports, ipv6 ? "ipv6_addr" : "ipv4_addr", elements,
      request.interface_name, ipv6 ? "ip6" : "ip", ports);
}

}  // namespace ringwood
