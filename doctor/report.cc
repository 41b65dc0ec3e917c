#include "doctor/report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_format.h"
#include "base/table.h"
#include "base/units.h"
#include "dense/hosts.h"
#include "doctor/fields.h"
#include "plan/model/cost_option.h"

namespace ringwood {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kShownLinks = 28;               // all pairs of 8 hosts; of more, the slowest
constexpr uint64_t kExampleBytes = 102'000'000;  // gradients of ResNet-50, fp32

std::string Build(const HostFacts& host, const char* name) {
  const auto found = host.build.find(name);
  return found == host.build.end() ? "?" : found->second;
}

std::string Speed(double bits) {
  return bits > 0 ? absl::StrFormat("%.3g Gbit/s", bits * 1e-9) : "-";
}

std::string HostTable(const std::vector<HostFacts>& hosts) {
  std::vector<std::vector<std::string>> rows = {{"HOST", "RINGWOOD", "COMMIT", "UCX", "CORES",
                                                 "GPUS", "FILES", "INTERFACE", "ADDRESS", "SPEED"}};
  for (const HostFacts& host : hosts) {
    if (!host.error.empty()) continue;
    double bits = 0;
    for (const InterfaceFacts& nic : host.interfaces) {
      if (nic.name == host.interface_name) bits = nic.bits_per_second;
    }
    rows.push_back({host.host, Build(host, "ringwood"), Build(host, "commit"), Build(host, "UCX"),
                    std::to_string(host.cores), std::to_string(host.gpu.devices),
                    std::to_string(host.descriptors_hard),
                    host.interface_name.empty() ? "-" : host.interface_name,
                    host.address.empty() ? "-" : host.address, Speed(bits)});
  }
  return rows.size() > 1 ? FormatTable(rows) : "";
}

// The facts of one host for which the table of hosts has no room.
std::string Details(const HostFacts& host) {
  std::string text;
  const auto add = [&text](const std::string& name, const std::string& value) {
    text += absl::StrFormat("  %-12s %s\n", name, value);
  };
  for (const auto& [name, value] : host.build) {
    if (name != "ringwood" && name != "commit" && name != "UCX") add(name, value);
  }
  for (const InterfaceFacts& nic : host.interfaces) {
    add("interface",
        absl::StrFormat("%s %s %s%s, MTU %d", nic.name,
                        nic.address.empty() ? "without an address" : nic.address,
                        nic.up ? "up" : "down", nic.loopback ? ", loopback" : "", nic.mtu));
  }
  for (const RouteFacts& route : host.routes) {
    add("route", absl::StrFormat("%s%s by %s", route.destination,
                                 route.gateway.empty() ? "" : " over " + route.gateway,
                                 route.interface_name));
  }
  add("data plane", host.transport == "ucx" ? "UCX over tcp" : "gRPC");
  add("GPUs", host.gpu.devices == 0 ? "none: " + host.gpu.error
                                    : absl::StrFormat("%d, %s", host.gpu.devices,
                                                      host.gpu.nccl ? "with NCCL" : "no NCCL"));
  return text;
}

std::string DiskLine(const HostFacts& host) {
  const DiskFacts& disk = host.disk;
  if (disk.path.empty() || !disk.error.empty()) return "";
  return absl::StrFormat("store %s on %s (%s): %.0f MB/s, %s a synced write, %s free\n", disk.path,
                         host.host, disk.file_system, disk.write_rate / 1e6,
                         FormatSeconds(disk.sync_seconds), FormatBytes(disk.free_bytes));
}

std::string LinkTable(std::vector<LinkFacts> links) {
  std::erase_if(links, [](const LinkFacts& link) { return !link.error.empty(); });
  if (links.empty()) return "";
  const size_t all = links.size();
  std::stable_sort(links.begin(), links.end(), [](const LinkFacts& a, const LinkFacts& b) {
    return std::min(a.sent_rate, a.received_rate) < std::min(b.sent_rate, b.received_rate);
  });
  if (all > kShownLinks) links.resize(kShownLinks);
  std::vector<std::vector<std::string>> rows = {
      {"FROM", "TO", "BY", "LATENCY", "THERE", "BACK", "SENT AGAIN", "CLOCK"}};
  for (const LinkFacts& link : links) {
    rows.push_back({link.from, link.to, link.interface_name, FormatSeconds(link.latency_seconds),
                    Speed(link.sent_rate * 8), Speed(link.received_rate * 8),
                    absl::StrFormat("%.2f %%", 100 * link.lost_share),
                    absl::StrFormat("%+.3f s", link.clock_offset)});
  }
  const std::string more =
      all > kShownLinks ? absl::StrFormat("(the slowest %d of %d pairs)\n", kShownLinks, all) : "";
  return FormatTable(rows) + more;
}

std::string FindingText(const Finding& finding) {
  return absl::StrFormat("%s: %s: %s\n    %s\n", NameOf(finding.severity), finding.where,
                         finding.what, finding.remedy);
}

Hosts RankPlaces(const std::vector<HostFacts>& hosts) {
  std::vector<std::string> names;
  for (const HostFacts& host : hosts) names.insert(names.end(), host.slots, host.host);
  return GroupByHost(names);
}

}  // namespace

HopCost CostOf(const ClusterFacts& facts) {
  HopCost cost;
  double rate = 0, latency = 0;
  for (const LinkFacts& link : facts.links) {
    if (!link.error.empty()) continue;
    const double low = std::min(link.sent_rate, link.received_rate);
    rate = rate == 0 ? low : std::min(rate, low);
    latency = std::max(latency, link.latency_seconds);
  }
  if (rate <= 0) return cost;
  cost.alpha = latency;
  cost.beta = 1 / rate;
  return cost;
}

std::vector<std::string> PlannedLines(const ClusterFacts& facts) {
  const auto first = std::find_if(
      facts.hosts.begin(), facts.hosts.end(),
      [](const HostFacts& host) { return host.error.empty() && !host.interface_name.empty(); });
  if (first == facts.hosts.end()) return {};
  std::vector<std::string> lines;
  lines.push_back(absl::StrFormat("data plane: %s on %s",
                                  first->transport == "ucx" ? "UCX over tcp" : "gRPC",
                                  first->interface_name));
  const bool gpus = std::all_of(facts.hosts.begin(), facts.hosts.end(), [](const HostFacts& host) {
    return host.gpu.devices > 0 && host.gpu.nccl && host.private_network;
  });
  lines.push_back(gpus ? "gradients on GPUs: dense ones by NCCL"
                       : "gradients: in the hosts' memory");
  const Hosts places = RankPlaces(facts.hosts);
  const int world = RanksOf(places);
  if (world < 2) return lines;
  const HopCost cost = CostOf(facts);
  lines.push_back("all-reduces: " + DescribeSwitches(cost, places));
  const Choice choice =
      ChooseSchedule({.bytes = kExampleBytes, .world = world, .cost = cost, .hosts = &places});
  lines.push_back("102 MB (ResNet-50, fp32): " + choice.reason);
  Network network;
  network.beta = cost.beta;
  SetHop(cost.alpha, &network);
  lines.push_back("for a model: ringwood plan " + PlanArguments(network, places) + " --trace FILE");
  return lines;
}

std::string VerdictOf(const std::vector<Finding>& findings) {
  int errors = 0, warnings = 0;
  for (const Finding& finding : findings) {
    errors += finding.severity == Severity::kError;
    warnings += finding.severity == Severity::kWarning;
  }
  const std::string rest = warnings == 0 ? "" : FormatCount(warnings, "warning");
  if (errors == 0) return rest.empty() ? "ready" : "ready, with " + rest;
  return "not ready: " + FormatCount(errors, "error") + (rest.empty() ? "" : ", " + rest);
}

std::string ToText(const DoctorReport& report) {
  const ClusterFacts& facts = report.facts;
  std::string text = HostTable(facts.hosts);
  if (facts.hosts.size() == 1 && facts.hosts[0].error.empty()) text += Details(facts.hosts[0]);
  for (const HostFacts& host : facts.hosts) text += DiskLine(host);
  if (const std::string links = LinkTable(facts.links); !links.empty()) text += "\n" + links;
  const std::vector<std::string> planned = PlannedLines(facts);
  if (!planned.empty()) text += "\nplanned\n";
  for (const std::string& line : planned) text += "  " + line + "\n";
  text += "\n";
  for (const Finding& finding : report.findings) text += FindingText(finding);
  return text + "verdict: " + VerdictOf(report.findings) + "\n";
}

std::string ToJson(const DoctorReport& report) {
  Json findings = Json::array();
  for (const Finding& finding : report.findings) {
    findings.push_back({{"severity", NameOf(finding.severity)},
                        {"what", finding.what},
                        {"where", finding.where},
                        {"remedy", finding.remedy},
                        {"passes", finding.passes}});
  }
  const Json json = {{"verdict", VerdictOf(report.findings)},
                     {"exit_code", ExitCodeOf(report.findings)},
                     {"findings", findings},
                     {"hosts", report.facts.hosts},
                     {"links", report.facts.links},
                     {"planned", PlannedLines(report.facts)}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace ringwood
