// The ringwood program: reads the command line and the environment once, and hands them down.
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "launch/arguments.h"
#include "launch/bench_sparse_command.h"
#include "launch/command.h"
#include "launch/plan_command.h"
#include "launch/probe_command.h"
#include "launch/replay_command.h"
#include "launch/simulate_command.h"
#include "launch/supervisor.h"
#include "launch/trace_command.h"
#include "launch/version.h"

namespace {

ringwood::Environment ReadEnvironment() {
  ringwood::Environment result;
  for (char** entry = ::environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const size_t equals = text.find('=');
    if (equals != std::string::npos) result[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return result;
}

int Parse(CLI::App& app, std::vector<std::string> arguments) {
  const std::string first = arguments.empty() ? "" : arguments[0];
  try {  // CLI11 reports by exceptions; they end here
    std::reverse(arguments.begin(), arguments.end());
    app.parse(std::move(arguments));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    const auto chosen = app.get_subcommands();
    if (chosen.empty() && !first.empty() && first[0] != '-') {
      std::fprintf(stderr, "ringwood: there is no command %s; see ringwood --help\n",
                   first.c_str());
      return ringwood::kExitConfiguration;
    }
    std::fprintf(stderr, "ringwood: %s; see ringwood%s --help\n", error.what(),
                 chosen.empty() ? "" : (" " + chosen[0]->get_name()).c_str());
    return ringwood::kExitConfiguration;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  ringwood::Arguments arguments =
      ringwood::SplitArguments(std::vector<std::string>(argv + 1, argv + argc));
  std::error_code error;
  ringwood::CommandContext context;
  context.program = std::filesystem::read_symlink("/proc/self/exe", error).string();
  context.directory = std::filesystem::current_path(error).string();
  context.environment = ReadEnvironment();
  context.trailing = std::move(arguments.trailing);
  context.dashes = arguments.dashes;

  CLI::App app("Gradient exchange for clusters with slow networks");
  app.name("ringwood");
  app.set_version_flag("--version", std::string("ringwood ") + ringwood::kVersion);
  app.require_subcommand(1);
  ringwood::AddRunCommand(app, &context);
  ringwood::AddWorkerCommand(app, &context);
  ringwood::AddServerCommand(app, &context);
  ringwood::AddCheckpointCommand(app, &context);
  ringwood::AddStatusCommand(app, &context);
  ringwood::AddPlanCommand(app, &context.exit_code);
  ringwood::AddProbeCommand(app, &context);
  ringwood::AddSimulateCommand(app, &context.exit_code);
  ringwood::AddBenchCommand(app, &context);
  ringwood::AddBenchSparseWorkerCommand(app, &context);
  ringwood::AddReplayCommand(app, &context);
  ringwood::AddReplayWorkerCommand(app, &context);
  ringwood::AddTraceCommand(app, &context);
  ringwood::AddDoctorCommand(app, &context);
  const int code = Parse(app, std::move(arguments.own));
  return code != 0 ? code : context.exit_code;
}
