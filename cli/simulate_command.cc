#include "cli/simulate_command.h"

#include <algorithm>
#include <cstdio>
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/units.h"
#include "cli/pages/chart_file.h"
#include "cli/plan_command.h"
#include "plan/model/cost_option.h"
#include "plan/predict/scaling.h"
#include "plan/strategy/profile_input.h"

namespace ringwood {
namespace {

constexpr double kLeastShare = 1e-9;  // of a tensor's entries
constexpr double kMostFactor = 1e6;   // slower than that is broken
constexpr int kMostWorkers = 4096;    // rings of more do not fit the simulator's memory bound

struct SimulateFlags {
  std::string profile;
  std::vector<int> workers;
  std::string network;
  int ranks_per_host = 1;
  int servers = 0;  // one on each host
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
      if (factor > kMostFactor) {
        return Invalid(absl::StrCat("'", text, "': a factor is at most ", kMostFactor));
      }
      const size_t index = std::stoul(rank);
      if (speeds->size() <= index) speeds->resize(index + 1);
      (*speeds)[index].*field = factor;
    }
  }
  return OkStatus();
}

Status RunSimulate(const SimulateFlags& flags) {
  RW_ASSIGN_OR_RETURN(const ModelProfile profile, ReadModelProfile(flags.profile));
  RW_RETURN_IF_ERROR(CheckDensities(flags.density, flags.max_density));
  PlanInput input = InputOf(profile, flags.density);
  RW_ASSIGN_OR_RETURN(input.network, ParseNetwork(flags.network));
  input.max_density = flags.max_density;
  if (flags.forward >= 0) {
    input.forward_seconds = flags.forward;
    input.forward_layer_seconds.clear();
  }
  std::vector<NodeSpeed> speeds;
  RW_RETURN_IF_ERROR(SetSpeeds(flags.stragglers, &NodeSpeed::compute, &speeds));
  RW_RETURN_IF_ERROR(SetSpeeds(flags.slow_links, &NodeSpeed::beta, &speeds));
  const int most = *std::max_element(flags.workers.begin(), flags.workers.end());
  if (speeds.size() > static_cast<size_t>(std::max(most, 0))) {
    return Invalid(absl::StrCat("--straggler or --slow-link names rank ", speeds.size() - 1,
                                ", but ", most, " workers have the ranks 0 to ", most - 1));
  }
  std::vector<ScalingPoint> points;
  for (const int workers : flags.workers) {
    if (workers < 1 || workers > kMostWorkers) {
      return Invalid(absl::StrCat(workers, " workers: 1 to ", kMostWorkers, " can be simulated"));
    }
    if (flags.ranks_per_host > workers) {
      return Invalid(absl::StrCat("--ranks-per-host ", flags.ranks_per_host, ": there are ",
                                  workers, " workers (--workers)"));
    }
    input.servers = ServersPlanned(flags.servers, workers, flags.ranks_per_host);
    if (flags.ranks_per_host > 1) {
      input.hosts = EvenHosts(workers, flags.ranks_per_host);
      input.node_hosts = NodeHostsOf(input.hosts, input.servers);
    }
    std::vector<NodeSpeed> some = speeds;
    if (some.size() > static_cast<size_t>(workers)) some.resize(workers);
    RW_ASSIGN_OR_RETURN(const ScalingPoint point, ScaleTo(workers, flags.planner, input, some));
    points.push_back(point);
  }
  std::printf("%s, planner %s: %zu tensors, backward %s, forward %s\n\n", profile.name.c_str(),
              flags.planner.c_str(), profile.tensors.size(),
              FormatSeconds(profile.tensors.back().ready_seconds).c_str(),
              FormatSeconds(input.forward_seconds).c_str());
  std::fputs(ScalingTable(points).c_str(), stdout);
  if (!flags.csv.empty()) RW_RETURN_IF_ERROR(WriteText(flags.csv, ScalingCsv(points)));
  if (!flags.chart.empty()) {
    const std::string title =
        absl::StrCat(profile.name, ", ", flags.planner, ": scaling efficiency");
    RW_RETURN_IF_ERROR(WriteChart(flags.chart, ScalingSvg(points, title)));
  }
  return OkStatus();
}

}  // namespace

void AddSimulateCommand(Command app, CommandContext* context) {
  auto flags = std::make_shared<SimulateFlags>();
  Command command = app.Subcommand("simulate", "Simulate how a plan scales, worker by worker");
  const auto add = [&](const char* name, auto* value, const char* takes, const char* help) {
    return command.Value(name, value, help).Takes(takes);
  };
  add("--trace", &flags->profile, "FILE", "Read the model's profile from this CSV file").Required();
  add("--workers", &flags->workers, "NUMBERS", "Simulate these numbers of workers: 4,8,…,2048")
      .Required()
      .SplitAt(',');
  add("--network", &flags->network, "COST",
      "Take this cost of a link: alpha=S,beta=S_PER_BYTE[,gamma=S_PER_BYTE][,delay=S]")
      .Required();
  add("--ranks-per-host", &flags->ranks_per_host, "NUMBER",
      "Let this many workers share a network interface")
      .ShowDefault()
      .Within(1, kMaxRanks);
  add("--servers", &flags->servers, "NUMBER",
      "Use this many reducers of the sparse tree, without it one on each host")
      .Within(1, kMaxRanks);
  add("--planner", &flags->planner, "NAME", "Simulate the plans of this planner").ShowDefault();
  add("--density", &flags->density, "SHARE", "Send at least this share of a sparse tensor")
      .ShowDefault()
      .Within(kLeastShare, 1);
  add("--max-density", &flags->max_density, "SHARE", "Send at most this share of a sparse tensor")
      .ShowDefault()
      .Within(kLeastShare, 1);
  add("--forward", &flags->forward, "SECONDS", "Take this forward time where the profile has none")
      .AtLeast(0);
  add("--straggler", &flags->stragglers, "RANK=FACTOR",
      "Let this rank compute slower by the factor (repeatable)");
  add("--slow-link", &flags->slow_links, "RANK=FACTOR",
      "Let this rank's network interface be slower by the factor (repeatable)");
  add("--csv", &flags->csv, "FILE", "Write the table to this CSV file");
  add("--chart", &flags->chart, "FILE", "Write the scaling curve to FILE.svg or FILE.png");
  command.Run(context, [flags] { return RunSimulate(*flags); });
}

}  // namespace ringwood
