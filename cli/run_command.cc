#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/random.h"
#include "base/units.h"
#include "cli/command.h"
#include "cli/run/given_options.h"
#include "cli/run/run_flags.h"
#include "launch/run.h"

namespace ringwood {
namespace {

void PrintPlan(const RunOptions& run) {
  std::printf("servers: %d%s\n", run.reducers(),
              run.lone_coordinator ? (", and a coordinator on host " + run.places[0].host).c_str()
              : run.servers > 0    ? (", the first on host " + run.places[0].host).c_str()
                                   : "");
  if (run.servers > 0)
    std::printf("store: %s%s\n", run.store.empty() ? "temporary" : run.store.c_str(),
                run.stores > 1 ? (" of " + FormatCount(run.stores, "server")).c_str() : "");
  for (const HostRanks& place : run.places) {
    std::printf("host %s: ranks %d..%d", place.host.c_str(), place.first_rank,
                place.first_rank + place.count - 1);
    if (place.host != "localhost") {
      std::printf(" by %s %s %s worker -", absl::StrJoin(run.reach.remote_shell, " ").c_str(),
                  place.host.c_str(), run.reach.remote_program.c_str());
    }
    std::printf("\n");
  }
  if (run.elastic) {
    std::printf("elastic: goes on with %s or more; %d of the ranks are spares\n",
                FormatCount(run.elastic->min_ranks, "rank").c_str(), run.elastic->spares);
  }
  std::printf("command: %s\n", absl::StrJoin(run.command, " ").c_str());
}

// The first host makes it (agent.h) and the job removes it there. Its name cannot be guessed.
std::string TemporaryStore(const CommandContext& context, const RunOptions& run) {
  const auto found = context.environment.find("TMPDIR");
  const bool here = run.places[0].host == "localhost" && found != context.environment.end() &&
                    !found->second.empty();
  return absl::StrFormat("%s/ringwood-%016x%016x", here ? found->second : "/tmp", Unpredictable(),
                         Unpredictable());
}

Status ExecuteRun(CommandContext* context, const RunFlags& flags) {
  RW_ASSIGN_OR_RETURN(RunOptions run, RunOptionsGiven(*context, flags));
  if (flags.dry_run) {
    PrintPlan(run);
    return OkStatus();
  }
  if (run.store.empty() && run.servers > 0) {
    run.store = TemporaryStore(*context, run);
    run.temporary_store = true;
  }
  context->exit_code = RunJob(run);
  return OkStatus();
}

}  // namespace

void AddRunCommand(Command app, CommandContext* context) {
  Command command = app.Subcommand("run", "Run a command as the ranks of a job");
  command.Footer("Example: ringwood run -np 4 -- python train.py");
  auto flags = std::make_shared<RunFlags>();
  AddRunFlags(command, flags.get());
  command.Run(context, [context, flags] { return ExecuteRun(context, *flags); });
}

}  // namespace ringwood
