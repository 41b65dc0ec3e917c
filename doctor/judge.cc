#include <algorithm>
#include <map>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/net/socket_address.h"
#include "doctor/finding.h"
#include "launch/supervision/ending.h"

namespace ringwood {
namespace {

// "0.1.0 of commit 0123456789ab"
std::string BuildOf(const HostFacts& host) {
  const auto fact = [&](const char* name) {
    const auto found = host.build.find(name);
    return found == host.build.end() ? std::string("?") : found->second;
  };
  return fact("ringwood") + " of commit " + fact("commit");
}

// What most hosts have; of values that are equally common, the first host's.
std::string Usual(const std::vector<std::string>& values) {
  std::map<std::string, int> count;
  for (const std::string& value : values) ++count[value];
  return *std::max_element(values.begin(), values.end(),
                           [&](const auto& a, const auto& b) { return count[a] < count[b]; });
}

std::vector<const HostFacts*> Reached(const ClusterFacts& facts) {
  std::vector<const HostFacts*> reached;
  for (const HostFacts& host : facts.hosts) {
    if (host.error.empty()) reached.push_back(&host);
  }
  return reached;
}

// One finding for each value that differs from the usual one.
void AddDiffering(const std::vector<const HostFacts*>& hosts,
                  const std::vector<std::string>& values, const std::string& what,
                  const Finding& finding, std::vector<Finding>* found) {
  const std::string usual = Usual(values);
  std::map<std::string, std::vector<std::string>> others;
  for (size_t i = 0; i < hosts.size(); ++i) {
    if (values[i] != usual) others[values[i]].push_back(hosts[i]->host);
  }
  for (const auto& [value, names] : others) {
    Finding one = finding;
    one.where = absl::StrJoin(names, ", ");
    one.what = absl::StrFormat("%s is %s, on the others %s", what, value, usual);
    found->push_back(one);
  }
}

}  // namespace

const char* NameOf(Severity severity) {
  switch (severity) {
    case Severity::kNote:
      return "note";
    case Severity::kWarning:
      return "warning";
    case Severity::kError:
      return "error";
  }
  return "";
}

std::vector<Finding> JudgeBuilds(const ClusterFacts& facts) {
  std::vector<Finding> found;
  const std::vector<const HostFacts*> hosts = Reached(facts);
  if (hosts.size() < 2) return found;
  std::vector<std::string> builds;
  for (const HostFacts* host : hosts) builds.push_back(BuildOf(*host));
  AddDiffering(hosts, builds, "ringwood",
               {Severity::kError, "", "",
                "install the same package on all hosts: the processes of a job are of one build"},
               &found);
  if (!found.empty()) return found;
  for (const char* library : {"UCX", "gRPC"}) {
    std::vector<std::string> versions;
    for (const HostFacts* host : hosts) {
      const auto fact = host->build.find(library);
      versions.push_back(fact == host->build.end() ? "?" : fact->second);
    }
    AddDiffering(hosts, versions, std::string("the version of ") + library,
                 {Severity::kWarning, "", "",
                  "install the same release of the system on all hosts, or the wheel, which brings "
                  "its libraries along"},
                 &found);
  }
  return found;
}

std::vector<Finding> JudgeAddresses(const ClusterFacts& facts) {
  std::vector<Finding> found;
  std::map<std::string, std::vector<std::string>> names;
  std::vector<const HostFacts*> hosts;
  std::vector<std::string> sizes;
  std::vector<const HostFacts*> placed;
  std::vector<std::string> kinds;
  for (const HostFacts* host : Reached(facts)) {
    if (!host->address.empty()) {
      names[host->address].push_back(host->host);
      placed.push_back(host);
      kinds.push_back(IsIpv6(host->address) ? "of IPv6" : "of IPv4");
    }
    for (const InterfaceFacts& nic : host->interfaces) {
      if (nic.name != host->interface_name) continue;
      hosts.push_back(host);
      sizes.push_back(std::to_string(nic.mtu));
    }
  }
  for (const auto& [address, same] : names) {
    if (same.size() < 2) continue;
    found.push_back({Severity::kError,
                     absl::StrFormat("the address %s is that of several hosts", address),
                     absl::StrJoin(same, ", "),
                     "name every host once, and give --network-interface an interface that joins "
                     "them"});
  }
  if (placed.size() > 1) {
    AddDiffering(placed, kinds, "the address of the data plane's interface",
                 {Severity::kError, "", "",
                  "give the interface an address of IPv4 on all hosts, or on none of them"},
                 &found);
  }
  if (hosts.size() > 1) {
    AddDiffering(hosts, sizes, "the MTU of the data plane's interface",
                 {Severity::kWarning, "", "",
                  "set the same MTU on all hosts (ip link set dev IF mtu N), and on the switch"},
                 &found);
  }
  return found;
}

std::vector<Finding> Judge(const ClusterFacts& facts) {
  std::vector<Finding> all;
  const auto add = [&](std::vector<Finding> some) {
    for (Finding& finding : some) all.push_back(std::move(finding));
  };
  for (const HostFacts& host : facts.hosts) add(JudgeHost(host, facts));
  add(JudgeBuilds(facts));
  add(JudgeAddresses(facts));
  add(JudgeLinks(facts));
  std::stable_sort(all.begin(), all.end(),
                   [](const Finding& a, const Finding& b) { return a.severity > b.severity; });
  return all;
}

int ExitCodeOf(const std::vector<Finding>& findings) {
  int code = kExitOk;
  for (const Finding& finding : findings) {
    if (finding.severity != Severity::kError) continue;
    if (!finding.passes) return kExitConfiguration;
    code = kExitRestart;
  }
  return code;
}

}  // namespace ringwood
