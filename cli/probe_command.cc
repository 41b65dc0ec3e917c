#include "cli/probe_command.h"

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/str_format.h"
#include "base/table.h"
#include "base/units.h"
#include "cli/pages/chart_file.h"
#include "client/grpc/parts.h"
#include "measure/ring_probe.h"
#include "measure/session_options.h"
#include "plan/model/cost_option.h"

namespace ringwood {
namespace {

struct ProbeFlags {
  std::string table;
  bool json = false;
};

struct Probed {
  int rank = 0;
  int world = 1;
  Hosts hosts;
  ProbeResult probe;
};

StatusOr<Probed> ProbeJob(const Environment& environment) {
  RW_ASSIGN_OR_RETURN(const SessionOptions options, SessionOptionsOf(environment));
  RW_ASSIGN_OR_RETURN(Parts parts, MakeParts(options));
  RW_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session,
                      Session::Open(options, std::move(parts)));
  if (session->world() < 2) {
    RW_RETURN_IF_ERROR(session->Close(""));
    return Invalid(
        "one rank has no network to measure; start it with `ringwood run -np 2` or more");
  }
  StatusOr<ProbeResult> probe = ProbeRing(session.get());
  RW_RETURN_IF_ERROR(session->Close(Message(probe.status())));
  RW_RETURN_IF_ERROR(probe.status());
  return Probed{session->rank(), session->world(), session->hosts(), *std::move(probe)};
}

// The columns that `--cost ring:table=FILE` reads.
std::string ToCsv(const ProbeResult& probe) {
  std::string text = "bytes,avg_latency_us\n";
  for (const auto& [bytes, seconds] : probe.medians) {
    text += absl::StrFormat("%.0f,%.17g\n", bytes, seconds * 1e6);
  }
  return text;
}

std::string ProbedJson(const Probed& probed, const Network& network) {
  const AffineFit& fit = probed.probe.fit;
  nlohmann::ordered_json json = {{"workers", probed.world},
                                 {"ranks_per_host", RanksPerHost(probed.hosts)},
                                 {"startup_seconds", fit.startup_seconds},
                                 {"seconds_per_byte", fit.seconds_per_byte},
                                 {"median_error_seconds", fit.median_error_seconds},
                                 {"alpha", network.alpha},
                                 {"beta", network.beta},
                                 {"delay", network.delay},
                                 {"medians", nlohmann::ordered_json::array()}};
  for (const auto& [bytes, seconds] : probed.probe.medians) {
    json["medians"].push_back({{"bytes", bytes}, {"seconds", seconds}});
  }
  return json.dump() + "\n";
}

std::string ProbedText(const Probed& probed, const Network& network) {
  const AffineFit& fit = probed.probe.fit;
  std::vector<std::vector<std::string>> rows = {{"SIZE", "MEDIAN", "BY THE FIT"}};
  for (const auto& [bytes, seconds] : probed.probe.medians) {
    rows.push_back(
        {FormatBytes(bytes), FormatSeconds(seconds), FormatSeconds(fit.cost().Seconds(bytes))});
  }
  return absl::StrFormat(
      "all-reduce of float32, %d ranks: %s + %.3g ns a byte\n%s"
      "for ringwood plan:  --cost ring:a=%.4g,b=%.4g\n"
      "              or :  %s\n",
      probed.world, FormatSeconds(fit.startup_seconds), fit.seconds_per_byte * 1e9,
      FormatTable(rows), fit.startup_seconds, fit.seconds_per_byte,
      PlanArguments(network, probed.hosts));
}

Status RunProbe(const Environment& environment, const ProbeFlags& flags) {
  RW_ASSIGN_OR_RETURN(const Probed probed, ProbeJob(environment));
  if (probed.rank != 0) return OkStatus();
  const AffineFit& fit = probed.probe.fit;
  Network network = NetworkBehind(fit.startup_seconds, fit.seconds_per_byte, probed.hosts, 0);
  if (probed.hosts.size() > 1) SetHop(network.alpha, &network);
  if (!flags.table.empty()) RW_RETURN_IF_ERROR(WriteText(flags.table, ToCsv(probed.probe)));
  const std::string text = flags.json ? ProbedJson(probed, network) : ProbedText(probed, network);
  std::printf("%s", text.c_str());
  return OkStatus();
}

}  // namespace

void AddProbeCommand(Command app, CommandContext* context) {
  Command command =
      app.Subcommand("probe", "Measure the cost of an all-reduce in the job it runs in");
  command.Footer("Example: ringwood run -np 4 -- ringwood probe --table ring.csv");
  auto flags = std::make_shared<ProbeFlags>();
  command
      .Value("--table", &flags->table, "Write the medians to this file, for --cost ring:table=FILE")
      .Takes("FILE");
  command.Switch("--json", &flags->json, "Print one line of JSON");
  command.Run(context, [context, flags] { return RunProbe(context->environment, *flags); });
}

}  // namespace ringwood
