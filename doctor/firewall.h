// Rules of the kernel's packet filter (nftables) that let only a job's hosts reach its ports.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "doctor/facts.h"
#include "transport/port_range.h"

namespace ringwood {

struct FirewallRequest {
  struct Member {
    std::string host;     // for the comment
    std::string address;  // IPv4 or IPv6, all of one kind
  };
  std::vector<Member> members;
  std::string interface_name;  // of the data plane, the same on all hosts
  PortRange ports;             // all that the job listens on
};

// All hosts of `facts` were reached. Invalid: no range, a host without an address, addresses of
// both IPv4 and IPv6, or interfaces that differ by name.
StatusOr<FirewallRequest> FirewallOf(const ClusterFacts& facts, const PortRange& ports);

// A file for `nft -f`, the same for every host: it replaces its own table and touches no other.
std::string NftRules(const FirewallRequest& request);

}  // namespace ringwood
