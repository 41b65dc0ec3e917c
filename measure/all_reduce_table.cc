#include "measure/all_reduce_table.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_format.h"
#include "base/median.h"
#include "base/table.h"
#include "base/units.h"
#include "client/connection/epoch_link.h"
#include "client/connection/hop_probe.h"
#include "client/grpc/parts.h"
#include "measure/gloo_peer.h"
#include "measure/session_options.h"
#include "transport/interface.h"

namespace ringwood {
namespace {

constexpr double kShareOfRuns = 4;  // with a peer, a turn has this part of a size's runs

struct Side {  // ours or the peer's, of one size
  BenchSamples samples;
  uint64_t nic_bytes = 0;
  uint64_t rounds = 0;  // warm-ups included
};

class SizeBench {
 public:
  // `interface`: that of the data plane; "" on loopback.
  SizeBench(const BenchPlan& plan, EpochLink* link, const std::string& wire, GlooPeer* gloo,
            const std::string& interface)
      : plan_(plan), link_(link), wire_(wire), gloo_(gloo), interface_(interface) {}

  StatusOr<BenchResult> Size(uint64_t bytes) {
    const Place& place = link_->place();
    BenchOptions options{.rank = place.rank, .world = place.world, .wire = wire_};
    options.hosts = place.hosts;
    options.cost = place.cost;
    AllReduceBench bench(link_->connection()->net(), link_->transport(), options, bytes);
    options.strategy = Strategy::kRing;
    AllReduceBench ring(link_->connection()->net(), link_->transport(), options, bytes);
    const int runs = RunsOf(bytes);
    Side ours, theirs;
    std::vector<double> ratios;
    for (int turn = 0; turn < (HasPeer() ? plan_.turns : 1); ++turn) {
      RW_ASSIGN_OR_RETURN(const double mine, Turn(&bench, runs, &ours));
      if (!HasPeer()) continue;
      RW_ASSIGN_OR_RETURN(const double other, PeerTurn(&ring, runs, &theirs));
      ratios.push_back(other / mine);
    }
    BenchResult result;
    result.nic_share = NicShare(ours, bench.bytes());
    result.peer_nic_share = NicShare(theirs, bench.bytes());
    result.ours = Summarize(bench.bytes(), place.world, std::move(ours.samples));
    result.peer = Summarize(bench.bytes(), place.world, std::move(theirs.samples));
    if (!ratios.empty()) {
      result.ratio = Median(ratios);
      result.ratio_min = *std::min_element(ratios.begin(), ratios.end());
      result.ratio_max = *std::max_element(ratios.begin(), ratios.end());
    }
    return result;
  }

 private:
  bool HasPeer() const { return !plan_.peer.empty(); }

  int RunsOf(uint64_t bytes) const {
    if (plan_.runs > 0) return plan_.runs;
    const int all = DefaultRuns(bytes);
    return HasPeer() ? std::max(1, static_cast<int>(all / kShareOfRuns)) : all;
  }

  // The answer is the turn's median.
  StatusOr<double> Turn(AllReduceBench* bench, int runs, Side* side) {
    BenchSamples samples;
    const uint64_t first = round_;
    RW_ASSIGN_OR_RETURN(const uint64_t before, SentBytes());
    RW_RETURN_IF_ERROR(bench->Run(runs, &round_, &samples));
    RW_ASSIGN_OR_RETURN(const uint64_t after, SentBytes());
    side->nic_bytes += after - before;
    side->rounds += round_ - first;
    return Append(samples, side);
  }

  StatusOr<double> PeerTurn(AllReduceBench* ring, int runs, Side* side) {
    if (gloo_ == nullptr) return Turn(ring, runs, side);
    BenchSamples samples;
    RW_RETURN_IF_ERROR(gloo_->Run(ring->bytes(), runs, &samples));
    return Append(samples, side);
  }

  StatusOr<uint64_t> SentBytes() const {
    if (interface_.empty()) return 0;
    RW_ASSIGN_OR_RETURN(const InterfaceBytes bytes, BytesOfInterface(interface_));
    return bytes.sent;
  }

  double NicShare(const Side& side, uint64_t bytes) const {
    if (interface_.empty() || side.rounds == 0) return -1;
    return static_cast<double>(side.nic_bytes) / static_cast<double>(side.rounds * bytes);
  }

  static double Append(const BenchSamples& from, Side* to) {
    std::vector<double>& all = to->samples.seconds;
    all.insert(all.end(), from.seconds.begin(), from.seconds.end());
    to->samples.cpu_seconds += from.cpu_seconds;
    return Median(from.seconds);
  }

  const BenchPlan& plan_;
  EpochLink* const link_;
  const std::string wire_;
  GlooPeer* const gloo_;
  const std::string interface_;
  uint64_t round_ = 1;
};

// The switch points of the runs that follow, and those by the cost measured here.
Status FindSwitches(const BenchPlan& plan, EpochLink* link, BenchReport* report) {
  const Place& place = link->place();
  RW_RETURN_IF_ERROR(MeasureDataPlane(link).status());
  RW_ASSIGN_OR_RETURN(report->measured, ProbeHops(link->collectives(), place));
  if (plan.adapt) link->TakeCost(report->measured);
  report->cost = place.cost;
  report->switches = SwitchPoints(report->cost, place.hosts, report->wire);
  report->chosen = DescribeSwitches(report->cost, place.hosts, report->wire);
  report->would_choose = DescribeSwitches(report->measured, place.hosts, report->wire);
  return OkStatus();
}

// The interface by its name; "" on loopback.
StatusOr<std::string> DataInterface(const SessionOptions& options) {
  if (options.network_interface.empty()) return std::string();
  RW_ASSIGN_OR_RETURN(const std::string interface, ChooseInterface(options.network_interface));
  RW_ASSIGN_OR_RETURN(const bool loopback, IsLoopback(interface));
  return loopback ? std::string() : interface;
}

}  // namespace

StatusOr<BenchReport> RunBench(const BenchPlan& plan,
                               const std::map<std::string, std::string>& environment) {
  RW_ASSIGN_OR_RETURN(SessionOptions options, SessionOptionsOf(environment));
  RW_RETURN_IF_ERROR(Check(options));
  if (options.wire == "native") options.wire = "fp32";  // what is summed here is float32
  if (options.wire == "auto") {
    return Invalid("--wire auto: a benchmark measures one format; give fp32, bf16, int8 or int4");
  }
  RW_ASSIGN_OR_RETURN(Parts parts, MakeParts(options));
  Connection connection(std::move(parts));
  RW_ASSIGN_OR_RETURN(const auto link, EpochLink::Join(&connection, options));
  std::unique_ptr<GlooPeer> gloo;
  BenchReport report{options.rank,
                     options.world,
                     static_cast<int>(link->place().hosts.size()),
                     options.wire,
                     {},
                     {},
                     {},
                     {},
                     "",
                     ""};
  const auto measure = [&]() -> Status {
    RW_ASSIGN_OR_RETURN(const std::string interface, DataInterface(options));
    if (plan.peer == "gloo") {
      RW_ASSIGN_OR_RETURN(gloo, GlooPeer::Start(plan.python, environment, interface));
    }
    RW_RETURN_IF_ERROR(FindSwitches(plan, link.get(), &report));
    SizeBench bench(plan, link.get(), options.wire, gloo.get(), interface);
    for (const uint64_t bytes : plan.bytes) {
      RW_ASSIGN_OR_RETURN(BenchResult result, bench.Size(bytes));
      report.results.push_back(result);
    }
    return OkStatus();
  };
  Status status = measure();
  if (!status.ok()) {
    status = Annotate(link->Named(status), absl::StrFormat("rank %d", options.rank));
  }
  (void)link->Leave(status.ok() ? "" : Message(status));  // the status is what counts
  RW_RETURN_IF_ERROR(status);
  return report;
}

namespace {

// Bytes that the NIC of a host sent per byte of the tensor: ours / the peer's.
std::string FormatNicShare(const BenchResult& result) {
  const std::string ours = absl::StrFormat("%.2f", result.nic_share);
  return result.peer_nic_share < 0 ? ours
                                   : ours + absl::StrFormat(" / %.2f", result.peer_nic_share);
}

}  // namespace

std::string ToText(const BenchReport& report) {
  const bool peer = !report.results.empty() && report.results[0].peer.runs > 0;
  const bool counted = !report.results.empty() && report.results[0].nic_share >= 0;
  std::vector<std::vector<std::string>> rows = {
      {"SIZE", "MEDIAN", "P99", "RATE", "BUS RATE", "CPU S/GB"}};
  if (peer) rows[0].insert(rows[0].end(), {"PEER", "PEER CPU", "RATIO", "SPREAD"});
  if (counted) rows[0].push_back("ON NIC");
  for (const BenchResult& result : report.results) {
    const BenchRow& ours = result.ours;
    rows.push_back({FormatBytes(static_cast<double>(ours.bytes)), FormatSeconds(ours.p50_s),
                    FormatSeconds(ours.p99_s), absl::StrFormat("%.3f Gbit/s", ours.algbw_gbit),
                    absl::StrFormat("%.3f Gbit/s", ours.busbw_gbit),
                    absl::StrFormat("%.2f", ours.cpu_s_per_gb)});
    if (peer) {
      rows.back().insert(
          rows.back().end(),
          {FormatSeconds(result.peer.p50_s), absl::StrFormat("%.2f", result.peer.cpu_s_per_gb),
           absl::StrFormat("%.2f", result.ratio),
           absl::StrFormat("%.2f-%.2f", result.ratio_min, result.ratio_max)});
    }
    if (counted) rows.back().push_back(FormatNicShare(result));
  }
  int least = report.results.empty() ? 0 : report.results[0].ours.runs;
  for (const BenchResult& result : report.results) least = std::min(least, result.ours.runs);
  return absl::StrFormat(
             "all-reduce of float32, %d ranks on %d hosts, %s on the wire, medians of %d and "
             "more\n",
             report.world, report.hosts, report.wire, least) +
         "chosen:        " + report.chosen + "\n" + "by measuring:  " + report.would_choose + "\n" +
         FormatTable(rows);
}

std::string ToJson(const HopCost& cost) {
  return absl::StrFormat(
      "{\"alpha\": %.4g, \"beta\": %.4g, \"message\": %.4g, \"inside_beta\": %.4g}", cost.alpha,
      cost.beta, cost.message, cost.inside_beta);
}

std::string ToJson(const BenchReport& report) {
  std::string json = absl::StrFormat(
      "{\"workers\": %d, \"hosts\": %d, \"wire\": \"%s\",\n \"cost\": %s,\n \"measured\": %s,\n "
      "\"switches\": [",
      report.world, report.hosts, report.wire, ToJson(report.cost), ToJson(report.measured));
  for (const SwitchPoint& point : report.switches) {
    json += absl::StrFormat("%s{\"strategy\": \"%s\"", &point == &report.switches[0] ? "" : ", ",
                            NameOf(point.strategy));
    if (point.bytes != UINT64_MAX) json += absl::StrFormat(", \"up_to_bytes\": %d", point.bytes);
    json += "}";
  }
  json += "], \"results\": [";
  for (const BenchResult& result : report.results) {
    std::string row = ToJson(result.ours);
    row.pop_back();  // the brace
    if (result.nic_share >= 0) row += absl::StrFormat(", \"nic\": %.4g", result.nic_share);
    if (result.peer_nic_share >= 0)
      row += absl::StrFormat(", \"peer_nic\": %.4g", result.peer_nic_share);
    if (result.peer.runs > 0) {
      row += absl::StrFormat(
          ", \"peer\": %s, \"ratio\": %.4g, \"ratio_min\": %.4g, "
          "\"ratio_max\": %.4g",
          ToJson(result.peer), result.ratio, result.ratio_min, result.ratio_max);
    }
    row += "}";
    json += (&result == report.results.data() ? "\n  " : ",\n  ") + row;
  }
  return json + "\n]}\n";
}

}  // namespace ringwood
