#include <algorithm>
#include <cmath>
#include <map>

#include "absl/strings/str_format.h"
#include "base/median.h"
#include "base/units.h"
#include "doctor/finding.h"

namespace ringwood {
namespace {

// Of the others' rate. A shaped or half-duplex interface has a tenth or a half of it; neighbours on
// a switch differ by less than this.
constexpr double kSlowShare = 0.6;
constexpr double kSlowLatency = 5;            // times the others'
constexpr double kLatencySlack = 3e-4;        // seconds: below it a busy core explains it
constexpr double kLostShare = 0.01;           // of segments
constexpr double kClockSeconds = 0.1;         // beyond it logs of hosts do not line up
constexpr double kOfNominal = 0.6;            // of what a driver says
constexpr double kLeastReceiveBuffer = 64e3;  // below it, nothing was read

// The best rate of one host in one direction, and the rates of all links between other hosts.
struct Share {
  double best = 0;
  std::vector<double> others;
};

// A rate that links reach even where several hosts are slow, without being an outlier.
double UpperQuartile(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[values.size() * 3 / 4];
}

bool Measured(const LinkFacts& link) { return link.error.empty(); }

Share RateOf(const ClusterFacts& facts, const std::string& host, bool sends) {
  Share share;
  for (const LinkFacts& link : facts.links) {
    if (!Measured(link)) continue;
    if (link.from == host || link.to == host) {
      const bool forth = (link.from == host) == sends;
      share.best = std::max(share.best, forth ? link.sent_rate : link.received_rate);
    } else {
      share.others.push_back(std::min(link.sent_rate, link.received_rate));
    }
  }
  return share;
}

std::string Rate(double bytes) { return absl::StrFormat("%.3g Gbit/s", bytes * 8e-9); }

// Hosts that are slow whoever is at the other end, by direction. Of two hosts neither can be told.
std::vector<std::string> AddSlowHosts(const ClusterFacts& facts, std::vector<Finding>* found) {
  std::vector<std::string> slow;
  for (const HostFacts& host : facts.hosts) {
    for (const bool sends : {true, false}) {
      const Share share = RateOf(facts, host.host, sends);
      const double others = UpperQuartile(share.others);
      if (share.best == 0 || share.best >= kSlowShare * others) continue;
      slow.push_back(host.host);
      found->push_back(
          {Severity::kWarning,
           absl::StrFormat("it %s at %s at most, other hosts at %s", sends ? "sends" : "receives",
                           Rate(share.best), Rate(others)),
           host.host,
           absl::StrFormat("look at the network interface %s of this host: speed, cable, other "
                           "traffic, limits of a virtual machine; every step waits for it",
                           host.interface_name)});
    }
  }
  return slow;
}

void AddSlowLinks(const ClusterFacts& facts, const std::vector<std::string>& slow,
                  std::vector<Finding>* found) {
  const auto known = [&](const std::string& host) {
    return std::find(slow.begin(), slow.end(), host) != slow.end();
  };
  std::vector<double> rates;
  for (const LinkFacts& link : facts.links) {
    if (Measured(link)) rates.push_back(std::min(link.sent_rate, link.received_rate));
  }
  const double usual = Median(rates);
  for (const LinkFacts& link : facts.links) {
    if (!Measured(link) || known(link.from) || known(link.to)) continue;
    const double low = std::min(link.sent_rate, link.received_rate);
    const double high = std::max(link.sent_rate, link.received_rate);
    const std::string where = link.from + " - " + link.to;
    if (low < kSlowShare * usual) {
      found->push_back(
          {Severity::kWarning,
           absl::StrFormat("%s between them, %s between other hosts", Rate(low), Rate(usual)),
           where, "look at the way between these two: switches, uplinks, routes"});
    } else if (low < kSlowShare * high) {
      found->push_back({Severity::kWarning,
                        absl::StrFormat("%s one way, %s the other", Rate(link.sent_rate),
                                        Rate(link.received_rate)),
                        where,
                        "look for half duplex, and for other traffic in the slow direction"});
    }
  }
}

const InterfaceFacts* DataInterfaceOf(const ClusterFacts& facts, const std::string& name) {
  for (const HostFacts& host : facts.hosts) {
    for (const InterfaceFacts& nic : host.interfaces) {
      if (host.host == name && nic.name == host.interface_name) return &nic;
    }
  }
  return nullptr;
}

void AddBelowNominal(const ClusterFacts& facts, const LinkFacts& link,
                     std::vector<Finding>* found) {
  const InterfaceFacts* from = DataInterfaceOf(facts, link.from);
  const InterfaceFacts* to = DataInterfaceOf(facts, link.to);
  if (from == nullptr || to == nullptr) return;
  const double bits = std::min(from->bits_per_second, to->bits_per_second);
  const double rate = std::max(link.sent_rate, link.received_rate) * 8;
  if (bits <= 0 || rate >= kOfNominal * bits) return;
  found->push_back({Severity::kNote,
                    absl::StrFormat("one connection reaches %s of the interfaces' %.3g Gbit/s",
                                    Rate(rate / 8), bits * 1e-9),
                    link.from + " - " + link.to,
                    "look at the processor's load, the MTU, and the switch between them"});
}

void AddLatency(const ClusterFacts& facts, std::vector<Finding>* found) {
  for (const HostFacts& host : facts.hosts) {
    double best = HUGE_VAL;
    std::vector<double> others;
    for (const LinkFacts& link : facts.links) {
      if (!Measured(link)) continue;
      if (link.from == host.host || link.to == host.host) {
        best = std::min(best, link.latency_seconds);
      } else {
        others.push_back(link.latency_seconds);
      }
    }
    const double usual = Median(others);
    if (others.empty() || best == HUGE_VAL) continue;
    if (best < kSlowLatency * usual || best < usual + kLatencySlack) continue;
    found->push_back({Severity::kWarning,
                      absl::StrFormat("a message takes %s to any other host, %s between others",
                                      FormatSeconds(best), FormatSeconds(usual)),
                      host.host,
                      "look for a longer way (VPN, router, another site), power saving, or a busy "
                      "processor"});
  }
}

void JudgeLink(const ClusterFacts& facts, const LinkFacts& link, std::vector<Finding>* found) {
  const std::string where = link.from + " - " + link.to;
  if (link.lost_share > kLostShare) {
    found->push_back(
        {Severity::kWarning,
         absl::StrFormat("TCP sent %.1f %% of the segments again", 100 * link.lost_share), where,
         "look at errors and drops (ip -s link) of both hosts and the switch"});
  }
  if (std::abs(link.clock_offset) - link.clock_error > kClockSeconds) {
    found->push_back({Severity::kWarning,
                      absl::StrFormat("the clock of %s is %s %s that of %s", link.to,
                                      FormatSeconds(std::abs(link.clock_offset)),
                                      link.clock_offset > 0 ? "ahead of" : "behind", link.from),
                      where,
                      "run a time service (chrony, systemd-timesyncd) on both: logs and timelines "
                      "are read side by side, and what expires does so by the clock"});
  }
  for (const HostFacts& host : facts.hosts) {
    if (host.host != link.from) continue;
    if (!link.interface_name.empty() && link.interface_name != host.interface_name) {
      found->push_back(
          {Severity::kWarning,
           absl::StrFormat("the kernel sends to %s through %s, the job listens on %s", link.to,
                           link.interface_name, host.interface_name),
           where, "give --network-interface the interface that joins them, or mend the route"});
    }
    const double flight = 2 * link.latency_seconds * std::max(link.sent_rate, link.received_rate);
    if (host.socket_receive_bytes > kLeastReceiveBuffer && flight > host.socket_receive_bytes) {
      found->push_back(
          {Severity::kWarning,
           absl::StrFormat("%s fit on the way, %s into a socket's buffer", FormatBytes(flight),
                           FormatBytes(host.socket_receive_bytes)),
           where, "raise the last number of net.ipv4.tcp_rmem and tcp_wmem"});
    }
  }
}

// A host that nobody reaches is one finding, not one a pair.
void AddUnconnected(const ClusterFacts& facts, std::vector<Finding>* found) {
  const std::string remedy =
      "open the job's ports between the hosts: ringwood doctor --firewall --port-range FIRST-LAST "
      "prints rules; and check that --network-interface is on the same network everywhere";
  std::map<std::string, int> broken, all;
  std::map<std::string, std::string> why;
  for (const LinkFacts& link : facts.links) {
    for (const std::string* host : {&link.from, &link.to}) {
      ++all[*host];
      if (Measured(link) || link.busy) continue;
      ++broken[*host];
      why[*host] = link.error;
    }
  }
  std::vector<std::string> named;
  for (const auto& [host, count] : broken) {
    if (all[host] < 2 || count < all[host]) continue;
    named.push_back(host);
    found->push_back(
        {Severity::kError, "no other host can talk to it: " + why[host], host, remedy});
  }
  for (const LinkFacts& link : facts.links) {
    if (Measured(link)) continue;
    const auto is = [&](const std::string& host) {
      return std::find(named.begin(), named.end(), host) != named.end();
    };
    if (!link.busy && (is(link.from) || is(link.to))) continue;
    found->push_back({Severity::kError, link.error, link.from + " - " + link.to,
                      link.busy ? "try again" : remedy, link.busy});
  }
}

}  // namespace

std::vector<Finding> JudgeLinks(const ClusterFacts& facts) {
  std::vector<Finding> found;
  AddUnconnected(facts, &found);
  const std::vector<std::string> slow = AddSlowHosts(facts, &found);
  AddSlowLinks(facts, slow, &found);
  AddLatency(facts, &found);
  const auto known = [&slow](const std::string& host) {
    return std::find(slow.begin(), slow.end(), host) != slow.end();
  };
  for (const LinkFacts& link : facts.links) {
    if (!Measured(link)) continue;
    JudgeLink(facts, link, &found);
    if (!known(link.from) && !known(link.to)) AddBelowNominal(facts, link, &found);
  }
  return found;
}

}  // namespace ringwood
