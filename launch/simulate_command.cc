#include "launch/simulate_command.h"

#include <cstdio>
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/units.h"
#include "launch/chart_file.h"
#include "plan/cost_option.h"
#include "plan/scaling.h"
#include "plan/trace_input.h"

namespace ringwood {
namespace {

constexpr int kSimulateConfiguration = 78;
constexpr int kMostWorkers = 4096;  // rings of more do not fit the simulator's memory bound

struct SimulateFlags {
  std::string trace;
  std::vector<int> workers;
  std::string network;
  int servers = 1;
  std::string planner = "exact";
  double density = 0.01;
  double max_density = 1;
  double forward = -1;
  std::vector<std::string> stragglers;
  std::vector<std::string> slow_links;
  std::string csv;
  std::string chart;
};

// "RANK=FACTOR" entries into one field of the speeds.
Status SetSpeeds(const std::vector<std::string>& texts, double NodeSpeed::*field,
                 std::vector<NodeSpeed>* speeds) {
  for (const std::string& text : texts) {
    RW_ASSIGN_OR_RETURN(const auto numbers, ParseNumbers(text));
    for (const auto& [rank, factor] : numbers) {
      if (rank.empty() || rank.size() > 4 || rank.find_first_not_of("0123456789") != rank.npos ||
          factor <= 0) {
        return Invalid(absl::StrCat("'", text, "': RANK=FACTOR is needed, as in 3=1.5"));
      }
      const size_t index = std::stoul(rank);
      if (speeds->size() <= index) speeds->resize(index + 1);
      (*speeds)[index].*field = factor;
    }
  }
  return OkStatus();
}

Status RunSimulate(const SimulateFlags& flags) {
  RW_ASSIGN_OR_RETURN(const Trace trace, ReadTrace(flags.trace));
  PlanInput input = InputOf(trace, flags.density);
  RW_ASSIGN_OR_RETURN(input.network, ParseNetwork(flags.network));
  input.servers = flags.servers;
  input.max_density = flags.max_density;
  if (flags.forward >= 0) {
    input.forward_seconds = flags.forward;
    input.forward_layer_seconds.clear();
  }
  std::vector<NodeSpeed> speeds;
  RW_RETURN_IF_ERROR(SetSpeeds(flags.stragglers, &NodeSpeed::compute, &speeds));
  RW_RETURN_IF_ERROR(SetSpeeds(flags.slow_links, &NodeSpeed::beta, &speeds));
  std::vector<ScalingPoint> points;
  for (const int workers : flags.workers) {
    if (workers < 1 || workers > kMostWorkers) {
      return Invalid(absl::StrCat(workers, " workers: 1 to ", kMostWorkers, " can be simulated"));
    }
    std::vector<NodeSpeed> some = speeds;
    if (some.size() > static_cast<size_t>(workers)) some.resize(workers);
    RW_ASSIGN_OR_RETURN(const ScalingPoint point, ScaleTo(workers, flags.planner, input, some));
    points.push_back(point);
  }
  std::printf("%s, planner %s: %zu tensors, backward %s, forward %s\n\n", trace.name.c_str(),
              flags.planner.c_str(), trace.tensors.size(),
              FormatSeconds(trace.tensors.back().ready_seconds).c_str(),
              FormatSeconds(input.forward_seconds).c_str());
  std::fputs(ScalingTable(points).c_str(), stdout);
  if (!flags.csv.empty()) RW_RETURN_IF_ERROR(WriteText(flags.csv, ScalingCsv(points)));
  if (!flags.chart.empty()) {
    const std::string title = absl::StrCat(trace.name, ", ", flags.planner, ": scaling efficiency");
    RW_RETURN_IF_ERROR(WriteChart(flags.chart, ScalingSvg(points, title)));
  }
  return OkStatus();
}

}  // namespace

void AddSimulateCommand(CLI::App& app, int* exit_code) {
  auto flags = std::make_shared<SimulateFlags>();
  CLI::App* command = app.add_subcommand("simulate", "how a plan scales, played worker by worker");
  command->add_option("--trace", flags->trace, "profile of a model (CSV)")->required();
  command->add_option("--workers", flags->workers, "4,8,…,2048")->required()->delimiter(',');
  command->add_option("--network", flags->network, "one link: alpha=S,beta=S_PER_BYTE[,gamma=…]")
      ->required();
  command->add_option("--servers", flags->servers, "reducers of the sparse tree (1)");
  command->add_option("--planner", flags->planner, "a planner's name (exact)");
  command->add_option("--density", flags->density, "lower bound on the sparse route (0.01)");
  command->add_option("--max-density", flags->max_density, "upper bound on the sparse route (1)");
  command->add_option("--forward", flags->forward, "forward seconds, where the trace has none");
  command->add_option("--straggler", flags->stragglers, "RANK=FACTOR: its computation is slower");
  command->add_option("--slow-link", flags->slow_links, "RANK=FACTOR: its card is slower");
  command->add_option("--csv", flags->csv, "the table as FILE");
  command->add_option("--chart", flags->chart, "the curve: FILE.svg or FILE.png");
  command->callback([flags, exit_code] {
    const Status status = RunSimulate(*flags);
    if (status.ok()) return;
    std::fprintf(stderr, "ringwood simulate: %s\n", Message(status).c_str());
    *exit_code = kSimulateConfiguration;
  });
}

}  // namespace ringwood
