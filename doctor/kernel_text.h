// Reads what Linux says about itself as text. Pure; what cannot be read is left out.
#pragma once

#include <string>
#include <vector>

#include "doctor/facts.h"
#include "transport/port_range.h"

namespace ringwood {

// proc(5): /proc/net/route, IPv4 in hexadecimal, least significant byte first.
std::vector<RouteFacts> ParseRoutes(const std::string& text);

// /proc/net/ipv6_route, without the kernel's own: to this host, link-local, multicast.
std::vector<RouteFacts> ParseRoutes6(const std::string& text);

// Of `range`, the ports that the kernel may give to outgoing connections: those of `outgoing`
// ("32768\t60999") which are not in `reserved` ("8080,20000-20099").
PortFacts OutgoingPorts(const PortRange& range, const std::string& outgoing,
                        const std::string& reserved);

// "gpu[01-03,7],login" → gpu01, gpu02, gpu03, gpu7, login: SLURM_JOB_NODELIST. Invalid: brackets
// that do not fit, a range that falls, more than `most` names.
StatusOr<std::vector<std::string>> ExpandNodeList(const std::string& text, size_t most);

}  // namespace ringwood
