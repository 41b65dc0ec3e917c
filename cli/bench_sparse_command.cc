#include "cli/bench_sparse_command.h"

#include <cmath>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/table.h"
#include "base/units.h"
#include "cli/inner_run.h"
#include "client/options/option_table.h"
#include "measure/select_bench.h"
#include "measure/sparse_bench.h"
#include "sparse/codec.h"

namespace ringwood {
namespace {

constexpr uint64_t kMaxElements = (uint64_t{1} << 32) - 1;
constexpr double kFastEntryBytes = 6;  // block16/fp32

struct SelectFlags {
  uint64_t elements = 16000000;
  std::vector<double> densities = {0.001, 0.01};
  std::vector<std::string> methods = {"exact"};
  double momentum = 0;
  int pairs = 15;
  bool json = false;
};

struct SparseFlags {
  SparseBenchOptions bench;
  std::vector<double> densities;
  bool json = false;
  InnerRunFlags run{.workers = 4};
  int servers = 0;  // not given
};

using MethodResult = std::pair<std::string, SelectBenchResult>;

void Print(const SelectFlags& flags, const std::vector<MethodResult>& results) {
  nlohmann::ordered_json json = {{"results", nlohmann::ordered_json::array()}};
  std::vector<std::vector<std::string>> rows = {{"METHOD", "ELEMENTS", "K", "PICKED",
                                                 "PLAIN UPDATE", "WITH SELECTION", "COMMIT",
                                                 "RATIO", "FROM", "TO"}};
  for (const auto& [method, r] : results) {
    json["results"].push_back({{"method", method},
                               {"elements", r.elements},
                               {"k", r.k},
                               {"picked", r.picked},
                               {"momentum", r.momentum},
                               {"plain_s", r.plain_seconds},
                               {"p50_s", r.select_seconds},
                               {"commit_s", r.commit_seconds},
                               {"ratio", r.ratio},
                               {"ratio_least", r.least_ratio},
                               {"ratio_most", r.most_ratio}});
    rows.push_back({method, absl::StrFormat("%d", r.elements), absl::StrFormat("%d", r.k),
                    absl::StrFormat("%.2f k", r.picked), FormatSeconds(r.plain_seconds),
                    FormatSeconds(r.select_seconds), FormatSeconds(r.commit_seconds),
                    absl::StrFormat("%.3f", r.ratio), absl::StrFormat("%.3f", r.least_ratio),
                    absl::StrFormat("%.3f", r.most_ratio)});
  }
  std::printf("%s", flags.json ? (json.dump() + "\n").c_str() : FormatTable(rows).c_str());
}

void Print(const SparseFlags& flags, const SparseBenchResult& result) {
  nlohmann::ordered_json json = {{"results", nlohmann::ordered_json::array()}};
  std::vector<std::vector<std::string>> rows = {
      {"K", "RANGES", "MEDIAN", "BUSIEST NIC", "LOWER BOUND", "A GATHER"}};
  for (const SparseBenchCase& c : result.cases) {
    const double bound =
        2 * static_cast<double>(c.k) * (result.workers - 1) / result.workers * kFastEntryBytes;
    const double gather = static_cast<double>(c.k) * (result.workers - 1) * kFastEntryBytes;
    const bool nic = c.nic_bytes > 0;
    json["results"].push_back({{"workers", result.workers},
                               {"servers", result.servers},
                               {"elements", flags.bench.elements},
                               {"k", c.k},
                               {"ranges", c.shards},
                               {"codec", flags.bench.codec},
                               {"merge", flags.bench.merge},
                               {"p50_s", c.median_seconds},
                               {"bytes_busiest_link", nic ? c.nic_bytes : c.worker_bytes},
                               {"bytes_counted", nic ? "nic" : "sent by a worker"},
                               {"bytes_lower_bound", bound},
                               {"bytes_gather", gather}});
    rows.push_back({absl::StrFormat("%d", c.k), absl::StrFormat("%d", c.shards),
                    FormatSeconds(c.median_seconds), nic ? FormatBytes(c.nic_bytes) : "-",
                    FormatBytes(bound), FormatBytes(gather)});
  }
  if (flags.json) {
    std::printf("%s\n", json.dump().c_str());
    return;
  }
  std::printf("%s%s",
              absl::StrFormat("sparse all-reduce of %d elements, %d workers, %d servers, %s, %s\n",
                              flags.bench.elements, result.workers, result.servers,
                              flags.bench.codec, flags.bench.merge)
                  .c_str(),
              FormatTable(rows).c_str());
}

// What the measurement itself needs: both commands have them.
void AddMeasureFlags(Command command, SparseFlags* flags) {
  SparseBenchOptions& bench = flags->bench;
  const auto add = [&](const char* name, auto* value, const char* takes, const char* help) {
    return command.Value(name, value, help).Takes(takes);
  };
  add("--elements", &bench.elements, "NUMBER", "Give the tensor this many elements")
      .ShowDefault()
      .Within(1, kMaxElements);
  add("--entries", &bench.entries, "NUMBERS",
      "Let each worker send this many entries (k), e.g. 25000,250000")
      .SplitAt(',')
      .ShowDefault();
  add("--density", &flags->densities, "SHARES",
      "Let each worker send this share of the elements instead, e.g. 0.001,0.01")
      .SplitAt(',')
      .Within(1e-9, 1.0);
  add("--fanout", &bench.fanout, "NUMBER", "Give a reducer at most this many children")
      .ShowDefault()
      .Within(2, 1 << 20);
  add("--codec", &bench.codec, "INDEX/VALUE", OptionNamed("sparse_codec").help)
      .ShowDefault()
      .Check([](const std::string& name) { return Message(ParseCodec(name).status()); });
  command.Value("--merge", &bench.merge, OptionNamed("sparse_merge").help)
      .ShowDefault()
      .OneOf({"gtopk", "union", "exact"});
  add("--rounds", &bench.rounds, "NUMBER", "Measure this many rounds")
      .ShowDefault()
      .Within(1, 100000);
  command.Switch("--json", &flags->json, "Print one line of JSON");
}

// Converts --density to --entries.
Status Resolve(SparseFlags* flags) {
  SparseBenchOptions& bench = flags->bench;
  if (!flags->densities.empty()) bench.entries.clear();
  for (double density : flags->densities) {
    bench.entries.push_back(std::max<uint64_t>(
        1, static_cast<uint64_t>(std::llround(density * static_cast<double>(bench.elements)))));
  }
  for (uint64_t k : bench.entries) {
    if (k >= 1 && k <= bench.elements) continue;
    return Invalid(absl::StrFormat("--entries: %d of %d elements", k, bench.elements));
  }
  return OkStatus();
}

Status Launch(CommandContext* context, SparseFlags* flags) {
  RW_RETURN_IF_ERROR(Resolve(flags));
  const SparseBenchOptions& bench = flags->bench;
  std::vector<std::string> arguments = {"bench-sparse-worker",
                                        absl::StrFormat("--elements=%d", bench.elements),
                                        "--entries=" + absl::StrJoin(bench.entries, ","),
                                        absl::StrFormat("--fanout=%d", bench.fanout),
                                        "--codec=" + bench.codec,
                                        "--merge=" + bench.merge,
                                        absl::StrFormat("--rounds=%d", bench.rounds)};
  if (flags->json) arguments.push_back("--json");
  const std::string servers = flags->servers > 0 ? std::to_string(flags->servers) : "";
  return InnerRun(context, flags->run, {{"--servers", servers}}, std::move(arguments));
}

}  // namespace

void AddBenchSelectCommand(Command bench, CommandContext* context) {
  Command command = bench.Subcommand(
      "select", "Time residual update with selection against the update alone, on this machine");
  command.Footer("Example: ringwood bench select --elements 16000000 --density 0.001,0.01");
  auto flags = std::make_shared<SelectFlags>();
  const auto add = [&](const char* name, auto* value, const char* takes, const char* help) {
    return command.Value(name, value, help).Takes(takes).ShowDefault();
  };
  add("--elements", &flags->elements, "NUMBER", "Give the tensor this many elements")
      .Within(1, kMaxElements);
  add("--density", &flags->densities, "SHARES", "Select these shares of the elements")
      .SplitAt(',')
      .Within(1e-9, 1.0);
  add("--method", &flags->methods, "METHODS", "Select by these of exact, threshold and gaussian")
      .SplitAt(',')
      .Check([](const std::string& name) { return Message(ParseMethod(name).status()); });
  add("--momentum", &flags->momentum, "FACTOR", "Apply this momentum correction; 0: none")
      .Within(0.0, 0.9999);
  add("--pairs", &flags->pairs, "NUMBER", "Measure this many pairs").Within(1, 100000);
  command.Switch("--json", &flags->json, "Print one line of JSON");
  command.Run(context, [flags] {
    std::vector<MethodResult> results;
    for (double density : flags->densities) {
      for (const std::string& method : flags->methods) {
        results.emplace_back(method,
                             MeasureSelection({flags->elements, density, *ParseMethod(method),
                                               static_cast<float>(flags->momentum), flags->pairs}));
      }
    }
    Print(*flags, results);
    return OkStatus();
  });
}

void AddBenchSparseCommand(Command bench, CommandContext* context) {
  Command command = bench.Subcommand("sparse", "Time sparse all-reduces in a job that this starts");
  command.Footer("Example: ringwood bench sparse --workers 4 --servers 4 --density 0.001,0.01");
  auto flags = std::make_shared<SparseFlags>();
  AddMeasureFlags(command, flags.get());
  AddInnerRunFlags(command, &flags->run).ShowDefault();
  command
      .Value("--servers", &flags->servers,
             "Start this many reducers, on the workers' hosts; without it one on each")
      .Takes("NUMBER")
      .Within(1, kMostServers);
  command.Run(context, [context, flags] { return Launch(context, flags.get()); });
}

void AddBenchSparseWorkerCommand(Command app, CommandContext* context) {
  Command command = app.Subcommand("bench-sparse-worker", "A rank of `ringwood bench sparse`");
  command.Hide();  // not shown: not started by hand
  auto flags = std::make_shared<SparseFlags>();
  AddMeasureFlags(command, flags.get());
  command.Run(context, [context, flags]() -> Status {
    RW_ASSIGN_OR_RETURN(const SparseBenchResult result,
                        RunSparseBench(flags->bench, context->environment));
    if (result.rank == 0) Print(*flags, result);
    return OkStatus();
  });
}

}  // namespace ringwood
