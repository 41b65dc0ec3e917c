#include "cli/replay_command.h"

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "cli/flags/session_flags.h"
#include "cli/inner_run.h"
#include "launch/host_list.h"
#include "measure/replay_trainer.h"
#include "plan/model/model_profile.h"

namespace ringwood {
namespace {

struct ReplayFlags {
  ReplayFlags() { replay.servers = 0; }  // not given

  ReplayOptions replay;
  double forward_ms = 0;
  bool json = false;
  // For `run`, as they stand.
  InnerRunFlags run;
  std::string planner, plan_for, wire, timeline, update_log;
};

// ReplayFlags of the trainer: both commands have them.
void AddReplayFlags(Command command, ReplayFlags* flags) {
  ReplayOptions& replay = flags->replay;
  const auto add = [&](const char* name, auto* value, const char* takes, const char* help) {
    return command.Value(name, value, help).Takes(takes);
  };
  add("--trace", &replay.profile, "FILE", "Read the model's profile from this CSV file").Required();
  add("--forward-ms", &flags->forward_ms, "MILLISECONDS", "Take this forward time of a step")
      .Within(0.0, 1e7);
  add("--scale", &replay.scale, "FACTOR", "Multiply every compute time by this factor")
      .ShowDefault()
      .Within(0.0, 1e6);
  add("--steps", &replay.steps, "NUMBER", "Measure this many steps")
      .ShowDefault()
      .Within(1, 1000000);
  add("--warmup", &replay.warmup, "NUMBER", "Run this many steps before them")
      .ShowDefault()
      .Within(0, 1000000);
  command.Value("--route", &replay.route, "Send every tensor by this route")
      .ShowDefault()
      .OneOf({"dense", "sparse", "auto"});
  add("--density", &replay.density, "SHARE", "Send this share of a sparse tensor")
      .ShowDefault()
      .Within(1e-9, 1.0);
  add("--servers", &replay.servers, "NUMBER",
      "Start this many servers (reducers); without it one on each host")
      .Within(1, kMostServers);
  add("--seed", &replay.seed, "NUMBER", "Make the gradients from this seed").ShowDefault();
  command.Switch("--json", &flags->json, "Print one line of JSON");
}

std::vector<std::string> WorkerArguments(const ReplayFlags& flags) {
  const ReplayOptions& replay = flags.replay;
  std::vector<std::string> arguments = {
      "replay-worker",
      absl::StrFormat("--trace=%s", std::filesystem::absolute(replay.profile).string()),
      absl::StrFormat("--forward-ms=%.17g", flags.forward_ms),
      absl::StrFormat("--scale=%.17g", replay.scale),
      absl::StrFormat("--steps=%d", replay.steps),
      absl::StrFormat("--warmup=%d", replay.warmup),
      absl::StrFormat("--route=%s", replay.route),
      absl::StrFormat("--density=%.17g", replay.density),
      absl::StrFormat("--servers=%d", replay.servers),
      absl::StrFormat("--seed=%d", replay.seed)};
  if (flags.json) arguments.push_back("--json");
  return arguments;
}

// A replay is `ringwood run` with a trainer of ours, so it is passed to that command.
Status LaunchReplay(CommandContext* context, ReplayFlags flags) {
  RW_RETURN_IF_ERROR(ReadModelProfile(flags.replay.profile).status());
  if (flags.replay.servers == 0) {
    RW_ASSIGN_OR_RETURN(const std::vector<Host> hosts, HostsGiven(flags.run.hosts, ""));
    RW_ASSIGN_OR_RETURN(const std::vector<HostRanks> places, PlaceRanks(hosts, flags.run.workers));
    flags.replay.servers = ServersOn(places.size());
  }
  return InnerRun(context, flags.run,
                  {{"--servers", std::to_string(flags.replay.servers)},
                   {"--planner", flags.planner},
                   {"--plan-for", flags.plan_for},
                   {"--wire", flags.wire},
                   {"--timeline", flags.timeline},
                   {"--update-log", flags.update_log}},
                  WorkerArguments(flags));
}

Status Work(const CommandContext& context, const ReplayFlags& flags) {
  RW_ASSIGN_OR_RETURN(const ReplayResult result, RunReplay(flags.replay, context.environment));
  if (result.rank != 0) return OkStatus();
  std::printf("%s",
              flags.json ? (ToJson(flags.replay, result) + "\n").c_str() : ToText(result).c_str());
  return OkStatus();
}

}  // namespace

void AddReplayCommand(Command app, CommandContext* context) {
  Command command =
      app.Subcommand("replay", "Measure step times of a model from its profile, without the model");
  command.Footer(
      "Example: ringwood replay --trace data/espresso/resnet50.csv --forward-ms 30 --workers 4");
  auto flags = std::make_shared<ReplayFlags>();
  AddReplayFlags(command, flags.get());
  AddInnerRunFlags(command, &flags->run).Required();
  AddSessionFlag(command, "planner", &flags->planner);
  AddSessionFlag(command, "plan_for", &flags->plan_for);
  AddSessionFlag(command, "wire", &flags->wire);
  command
      .Value("--timeline", &flags->timeline,
             "Write timelines of all ranks and servers, as ringwood run does")
      .Takes("NAME");
  command
      .Word("--update-log", "on", &flags->update_log,
            "Keep an update log in the temporary store, to see what it costs")
      .OneOf({"on", "fsync"});
  command.Run(context, [context, flags] { return LaunchReplay(context, *flags); });
}

void AddReplayWorkerCommand(Command app, CommandContext* context) {
  Command command = app.Subcommand("replay-worker", "A rank of `ringwood replay`");
  command.Hide();  // not shown: not started by hand
  auto flags = std::make_shared<ReplayFlags>();
  AddReplayFlags(command, flags.get());
  command.Run(context, [context, flags] {
    flags->replay.forward_seconds = flags->forward_ms * 1e-3;
    return Work(*context, *flags);
  });
}

}  // namespace ringwood
