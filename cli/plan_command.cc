#include "cli/plan_command.h"

#include <algorithm>
#include <cstdio>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/units.h"
#include "cli/pages/chart_file.h"
#include "launch/hosts.h"
#include "plan/model/cost_option.h"
#include "plan/predict/show.h"
#include "plan/strategy/profile_input.h"
#include "plan/strategy/rounds.h"

namespace ringwood {
namespace {

constexpr double kLeastDensity = 1e-9;
constexpr int kMostFragments = 4096;  // as many turns as tensors may take (client/tensor_table.cc)
constexpr int kMostSteps = 1000000;   // between exchanges: far above what learns
constexpr int kMostPlanned = 16384;   // workers and servers: also a job that is too large to run

struct PlanFlags {
  std::string profile;
  std::vector<std::string> costs;
  std::string network;
  int workers = 0;
  int ranks_a_host = 1;
  int servers = 0;  // one on each host
  std::string planner = "all";
  double density = 0;  // 0: not given
  double max_density = 1;
  double forward = -1;
  double epsilon = 0.01;
  double contention = 0.5;
  std::string group_limit;
  std::string wire = "native";
  bool bf16 = false;
  bool json = false;
  std::string chart;
  std::string timeline;
  bool rounds = false;
  double utilisation = 0.95;
  int fragments = 1;
  int delay = 0;
  int most_every = 500;
};

bool IsSparse(const std::string& planner) {
  return planner == "lags" || planner == "omgs" || planner == "omgs-exact";
}

Status SetCosts(const PlanFlags& flags, PlanInput* input) {
  input->network = Network{0, 0, 0};
  if (!flags.network.empty()) {
    if (flags.workers < 1) return Invalid("--network needs --workers N");
    RW_ASSIGN_OR_RETURN(input->network, ParseNetwork(flags.network));
  }
  for (const std::string& text : flags.costs) {
    RW_ASSIGN_OR_RETURN(const NamedCost named, ParseCost(text));
    (named.route == "ring" ? input->ring_cost : input->tree_cost) = named.cost;
  }
  if (!input->ring_cost && flags.network.empty()) {
    return Invalid(
        "the network is unknown; give --cost ring:a=S,b=S_PER_BYTE, or --network "
        "alpha=S,beta=S_PER_BYTE --workers N");
  }
  input->world = flags.workers > 0 ? flags.workers : 2;
  if (flags.ranks_a_host > input->world) {
    return Invalid(absl::StrCat("--ranks-per-host ", flags.ranks_a_host, ": there are ",
                                input->world, " workers (--workers)"));
  }
  if (flags.ranks_a_host > 1) input->hosts = EvenHosts(input->world, flags.ranks_a_host);
  input->servers = ServersPlanned(flags.servers, input->world, flags.ranks_a_host);
  if (flags.ranks_a_host > 1) input->node_hosts = NodeHostsOf(input->hosts, input->servers);
  return OkStatus();
}

// Without a tree's cost everything is dense.
bool HasTree(const PlanFlags& flags, const PlanInput& input) {
  return input.tree_cost.has_value() || (!flags.network.empty() && input.world > 1);
}

StatusOr<PlanInput> Input(const PlanFlags& flags, const ModelProfile& profile) {
  const double least = flags.density > 0 ? flags.density : std::min(0.01, flags.max_density);
  RW_RETURN_IF_ERROR(CheckDensities(least, flags.max_density));
  PlanInput input = InputOf(profile, least);
  RW_RETURN_IF_ERROR(SetCosts(flags, &input));
  if (flags.density > 0) input.lags_max_ratio = 1 / flags.density;
  if (flags.forward >= 0) {
    input.forward_seconds = flags.forward;
    input.forward_layer_seconds.clear();
  }
  input.max_density = flags.max_density;
  input.epsilon = flags.epsilon;
  input.contention = flags.contention;
  input.ring_codecs = RingCodecs(flags.wire, input.world);
  if (flags.bf16 && (flags.wire == "native" || flags.wire == "fp32")) {
    input.ring_codecs.push_back(RingCodec("bf16", input.world));
  }
  for (TensorSpec& tensor : input.tensors) {
    if (flags.wire != "native" || flags.bf16) tensor.element_bytes = 4;
  }
  if (!flags.group_limit.empty()) {
    RW_ASSIGN_OR_RETURN(input.group_limit_bytes, ParseBytes(flags.group_limit));
  }
  if (!HasTree(flags, input)) {
    for (TensorSpec& tensor : input.tensors) tensor.route = "dense";
  }
  return input;
}

StatusOr<std::vector<PlannedStep>> PlanAll(const PlanFlags& flags, const PlanInput& input) {
  std::vector<PlannedStep> steps;
  const bool tree = HasTree(flags, input);
  for (const std::string& name : PlannerNames()) {
    if (flags.planner != "all" && flags.planner != name) continue;
    if (IsSparse(name) && !tree) {
      if (flags.planner == "all") continue;
      return Invalid(absl::StrCat(name,
                                  " plans sparse groups and no tree is known; give --cost "
                                  "tree:a=S,b=S_PER_BYTE, or --network and --workers"));
    }
    RW_ASSIGN_OR_RETURN(PlannedStep step, PlanStep(name, input));
    steps.push_back(std::move(step));
  }
  if (steps.empty()) return MakePlan(flags.planner, input).status();  // says which names there are
  return steps;
}

void PrintPlansJson(const std::vector<PlannedStep>& steps, const PlanInput& input, bool all) {
  std::string json;
  for (const PlannedStep& step : steps) {
    absl::StrAppend(&json, json.empty() ? "" : ",\n", ToJson(step, input));
  }
  std::printf(all ? "{\"planners\": [\n%s]}\n" : "%s\n", json.c_str());
}

void PrintText(const PlanFlags& flags, const ModelProfile& profile, const PlanInput& input,
               const std::vector<PlannedStep>& steps) {
  std::printf("%s: %zu tensors, backward %s, forward %s%s\n\n", profile.name.c_str(),
              profile.tensors.size(), FormatSeconds(profile.tensors.back().ready_seconds).c_str(),
              FormatSeconds(input.forward_seconds).c_str(),
              input.forward_seconds > 0 ? "" : " (unknown: give --forward SECONDS)");
  std::fputs(ToTable(steps).c_str(), stdout);
  if (!HasTree(flags, input)) {
    std::puts("\nlags and omgs need a tree's cost (--cost tree:…, or --network and --workers)");
  }
  if (steps.size() == 1) {
    std::printf("\n%s", ToString(steps[0].plan, input.tensors).c_str());
  }
}

Status RunRounds(const PlanFlags& flags, const PlanInput& plan) {
  RoundsInput input;
  input.plan = plan;
  input.utilisation = flags.utilisation;
  input.fragments = flags.fragments;
  input.delay = flags.delay;
  input.most_every = flags.most_every;
  RW_ASSIGN_OR_RETURN(const std::vector<RoundsChoice> choices, PlanRounds(input));
  std::fputs((flags.json ? ToJson(choices, input) : ToTable(choices, input)).c_str(), stdout);
  return OkStatus();
}

Status RunPlan(const PlanFlags& flags) {
  RW_ASSIGN_OR_RETURN(const ModelProfile profile, ReadModelProfile(flags.profile));
  RW_ASSIGN_OR_RETURN(const PlanInput input, Input(flags, profile));
  if (flags.rounds) {
    if (!HasTree(flags, input)) {
      return Invalid("--rounds weighs dense and sparse exchanges: give --network and --workers");
    }
    return RunRounds(flags, input);
  }
  RW_ASSIGN_OR_RETURN(const std::vector<PlannedStep> steps, PlanAll(flags, input));
  if (flags.json) {
    PrintPlansJson(steps, input, flags.planner == "all");
  } else {
    PrintText(flags, profile, input, steps);
  }
  if (!flags.chart.empty()) {
    RW_RETURN_IF_ERROR(WriteChart(flags.chart, ToSvg(steps, input, profile.name)));
  }
  if (!flags.timeline.empty()) {
    RW_ASSIGN_OR_RETURN(const StepGraph graph, MakeStepGraph(input, steps.back().plan, {}));
    const std::string process = absl::StrCat(profile.name, ", ", steps.back().plan.planner);
    RW_RETURN_IF_ERROR(WriteText(flags.timeline, ToChromeTrace(graph, process)));
  }
  return OkStatus();
}

void AddNetworkFlags(Command command, PlanFlags* flags) {
  const auto add = [&](const char* name, auto* value, const char* takes, const char* help) {
    return command.Value(name, value, help).Takes(takes);
  };
  add("--cost", &flags->costs, "COST",
      "Take this measured cost of a message: ring:a=S,b=S_PER_BYTE, ring:table=FILE, tree:…");
  add("--network", &flags->network, "COST",
      "Take this cost of a link: alpha=S,beta=S_PER_BYTE[,gamma=S_PER_BYTE][,delay=S]");
  add("--workers", &flags->workers, "NUMBER", "Plan for this many workers on that network")
      .Within(1, kMostPlanned);
  add("--ranks-per-host", &flags->ranks_a_host, "NUMBER",
      "Let this many workers share a network interface")
      .ShowDefault()
      .Within(1, kMostPlanned);
  add("--servers", &flags->servers, "NUMBER",
      "Use this many reducers of the sparse tree, without it one on each host")
      .Within(1, kMostPlanned);
}

void AddPlannerFlags(Command command, PlanFlags* flags) {
  const auto add = [&](const char* name, auto* value, const char* takes, const char* help) {
    return command.Value(name, value, help).Takes(takes);
  };
  add("--planner", &flags->planner, "NAME", "Show this planner only, or all").ShowDefault();
  add("--density", &flags->density, "SHARE",
      "Send at least this share of a sparse tensor; without it 0.01")
      .Within(kLeastDensity, 1);
  add("--max-density", &flags->max_density, "SHARE", "Send at most this share of a sparse tensor")
      .ShowDefault()
      .Within(kLeastDensity, 1);
  add("--forward", &flags->forward, "SECONDS", "Take this forward time where the profile has none")
      .AtLeast(0);
  add("--epsilon", &flags->epsilon, "SHARE",
      "Let hybrid take plans that are slower than the best by this share for equally fast")
      .ShowDefault()
      .AtLeast(0);
  add("--contention", &flags->contention, "SHARE",
      "Let asc slow a message down by this share beside another one")
      .ShowDefault()
      .Within(0, 1);
  add("--group-limit", &flags->group_limit, "BYTES",
      "Merge groups up to this size, e.g. 64M; without it there is no limit");
  command
      .Value(
          "--wire", &flags->wire,
          "Send dense groups in their own type, as fp32, bf16, int8 or int4, or with auto each as "
          "is fastest")
      .ShowDefault()
      .OneOf({"native", "fp32", "bf16", "int8", "int4", "auto"});
  command.Switch("--bf16", &flags->bf16, "Choose between fp32 and bf16 for each dense group");
}

void AddRoundsFlags(Command command, PlanFlags* flags) {
  command.Switch("--rounds", &flags->rounds,
                 "Choose for local steps: how many between exchanges, and how these travel");
  const auto add = [&](const char* name, auto* value, const char* takes, const char* help) {
    return command.Value(name, value, help).Takes(takes);
  };
  add("--utilisation", &flags->utilisation, "SHARE",
      "With --rounds: let this share of the time be training")
      .ShowDefault()
      .Within(0.01, 0.9999);
  add("--fragments", &flags->fragments, "NUMBER",
      "With --rounds: exchange the model in this many parts, in turn")
      .ShowDefault()
      .Within(1, kMostFragments);
  add("--delay", &flags->delay, "STEPS",
      "With --rounds: let an exchange take this many steps beside training")
      .ShowDefault()
      .Within(0, kMostSteps);
  add("--most-every", &flags->most_every, "STEPS",
      "With --rounds: exchange each parameter once in this many steps at least")
      .ShowDefault()
      .Within(1, kMostSteps);
}

}  // namespace

int ServersPlanned(int given, int workers, int ranks_per_host) {
  if (given > 0) return given;
  return ServersOn((workers + ranks_per_host - 1) / ranks_per_host);
}

void AddPlanCommand(Command app, CommandContext* context) {
  auto flags = std::make_shared<PlanFlags>();
  Command command = app.Subcommand("plan", "Show what each planner does with a model's profile");
  const auto add = [&](const char* name, std::string* value, const char* help) {
    return command.Value(name, value, help).Takes("FILE");
  };
  add("--trace", &flags->profile, "Read the model's profile from this CSV file").Required();
  AddNetworkFlags(command, flags.get());
  AddPlannerFlags(command, flags.get());
  AddRoundsFlags(command, flags.get());
  command.Switch("--json", &flags->json, "Print JSON, numbers with 17 digits");
  add("--chart", &flags->chart, "Write a Gantt chart to FILE.svg or FILE.png");
  add("--timeline", &flags->timeline,
      "Write the step graph of the last planner in the table, for Perfetto");
  command.Run(context, [flags] { return RunPlan(*flags); });
}

}  // namespace ringwood
