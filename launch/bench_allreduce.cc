#include "launch/bench_allreduce.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_format.h"
#include "base/units.h"
#include "client/connection.h"
#include "client/grpc/parts.h"
#include "launch/gloo_peer.h"
#include "launch/session_options.h"
#include "launch/table.h"
#include "transport/interface.h"

namespace ringwood {
namespace {

constexpr double kShareOfRuns = 4;  // with a peer, a turn has this part of a size's runs

double MedianOf(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

class Bench {
 public:
  Bench(const BenchPlan& plan, Connection* connection, const std::string& wire, GlooPeer* peer)
      : plan_(plan), connection_(connection), wire_(wire), peer_(peer) {}

  StatusOr<BenchResult> Size(uint64_t bytes) {
    const Place& place = connection_->place();
    AllReduceBench bench(connection_->net(), connection_->transport(),
                         {.rank = place.rank, .world = place.world, .wire = wire_}, bytes);
    const int runs = RunsOf(bytes);
    BenchSamples ours, theirs;
    std::vector<double> ratios;
    for (int turn = 0; turn < (peer_ != nullptr ? plan_.turns : 1); ++turn) {
      BenchSamples a, b;
      RW_RETURN_IF_ERROR(bench.Run(runs, &round_, &a));
      Append(a, &ours);
      if (peer_ == nullptr) continue;
      RW_RETURN_IF_ERROR(peer_->Run(bench.bytes(), runs, &b));
      ratios.push_back(MedianOf(b.seconds) / MedianOf(a.seconds));
      Append(b, &theirs);
    }
    BenchResult result;
    result.ours = Summarize(bench.bytes(), place.world, std::move(ours));
    result.peer = Summarize(bench.bytes(), place.world, std::move(theirs));
    if (!ratios.empty()) {
      result.ratio = MedianOf(ratios);
      result.ratio_min = *std::min_element(ratios.begin(), ratios.end());
      result.ratio_max = *std::max_element(ratios.begin(), ratios.end());
    }
    return result;
  }

 private:
  int RunsOf(uint64_t bytes) const {
    if (plan_.runs > 0) return plan_.runs;
    const int all = DefaultRuns(bytes);
    return peer_ == nullptr ? all : std::max(1, static_cast<int>(all / kShareOfRuns));
  }

  static void Append(const BenchSamples& from, BenchSamples* to) {
    to->seconds.insert(to->seconds.end(), from.seconds.begin(), from.seconds.end());
    to->cpu_seconds += from.cpu_seconds;
  }

  const BenchPlan& plan_;
  Connection* const connection_;
  const std::string wire_;
  GlooPeer* const peer_;
  uint64_t round_ = 1;
};

}  // namespace

StatusOr<BenchReport> RunBench(const BenchPlan& plan,
                               const std::map<std::string, std::string>& environment) {
  RW_ASSIGN_OR_RETURN(const SessionOptions options, SessionOptionsOf(environment));
  RW_RETURN_IF_ERROR(Check(options));
  RW_ASSIGN_OR_RETURN(Parts parts, MakeParts(options));
  RW_ASSIGN_OR_RETURN(auto connection, Connection::Open(options, std::move(parts)));
  std::unique_ptr<GlooPeer> peer;
  BenchReport report{options.rank, options.world, options.wire, {}};
  const auto measure = [&]() -> Status {
    if (plan.peer == "gloo") {
      std::string card;
      if (!options.network_interface.empty()) {
        RW_ASSIGN_OR_RETURN(card, ChooseInterface(options.network_interface));
      }
      RW_ASSIGN_OR_RETURN(peer, GlooPeer::Start(plan.python, environment, card));
    }
    Bench bench(plan, connection.get(), options.wire, peer.get());
    for (const uint64_t bytes : plan.bytes) {
      RW_ASSIGN_OR_RETURN(BenchResult result, bench.Size(bytes));
      report.results.push_back(result);
    }
    return OkStatus();
  };
  Status status = measure();
  if (!status.ok()) {
    status = Annotate(connection->Named(status), absl::StrFormat("rank %d", options.rank));
  }
  (void)connection->Leave(status.ok() ? "" : Message(status));  // the status is what counts
  RW_RETURN_IF_ERROR(status);
  return report;
}

std::string ToText(const BenchReport& report) {
  const bool peer = !report.results.empty() && report.results[0].peer.runs > 0;
  std::vector<std::vector<std::string>> rows = {
      {"SIZE", "MEDIAN", "P99", "RATE", "BUS RATE", "CPU S/GB"}};
  if (peer) rows[0].insert(rows[0].end(), {"PEER", "PEER CPU", "RATIO", "SPREAD"});
  for (const BenchResult& result : report.results) {
    const BenchRow& ours = result.ours;
    rows.push_back({FormatBytes(static_cast<double>(ours.bytes)), FormatSeconds(ours.p50_s),
                    FormatSeconds(ours.p99_s), absl::StrFormat("%.3f Gbit/s", ours.algbw_gbit),
                    absl::StrFormat("%.3f Gbit/s", ours.busbw_gbit),
                    absl::StrFormat("%.2f", ours.cpu_s_per_gb)});
    if (!peer) continue;
    rows.back().insert(
        rows.back().end(),
        {FormatSeconds(result.peer.p50_s), absl::StrFormat("%.2f", result.peer.cpu_s_per_gb),
         absl::StrFormat("%.2f", result.ratio),
         absl::StrFormat("%.2f-%.2f", result.ratio_min, result.ratio_max)});
  }
  return absl::StrFormat(
             "all-reduce of float32, %d ranks, %s on the wire, medians of %d and more\n",
             report.world, report.wire,
             report.results.empty() ? 0 : report.results.back().ours.runs) +
         FormatTable(rows);
}

std::string ToJson(const BenchReport& report) {
  std::string json = absl::StrFormat("{\"workers\": %d, \"wire\": \"%s\", \"results\": [",
                                     report.world, report.wire);
  for (const BenchResult& result : report.results) {
    std::string row = ToJson(result.ours);
    if (result.peer.runs > 0) {
      row.pop_back();  // the brace
      row += absl::StrFormat(
          ", \"peer\": %s, \"ratio\": %.4g, \"ratio_min\": %.4g, "
          "\"ratio_max\": %.4g}",
          ToJson(result.peer), result.ratio, result.ratio_min, result.ratio_max);
    }
    json += (&result == report.results.data() ? "\n  " : ",\n  ") + row;
  }
  return json + "\n]}\n";
}

}  // namespace ringwood
