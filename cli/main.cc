// The ringwood program: reads the command line and the environment once, and hands them down.
#include <unistd.h>

#include <climits>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "base/log.h"
#include "cli/bench_sparse_command.h"
#include "cli/command.h"
#include "cli/flags/arguments.h"
#include "cli/plan_command.h"
#include "cli/probe_command.h"
#include "cli/reference_command.h"
#include "cli/replay_command.h"
#include "cli/simulate_command.h"
#include "launch/supervision/ending.h"

namespace ringwood {
extern const char kCommit[];  // written by cmake/commit.cmake
}  // namespace ringwood

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

// UCX 1.13 ends a process whose host has a name of 64 characters, the longest there is: its
// constructor copies it into as many bytes. docs/troubleshooting.md
void RefuseLongestHostName() {
  char name[HOST_NAME_MAX + 1] = {};
  if (gethostname(name, sizeof name) != 0 || strnlen(name, sizeof name) < HOST_NAME_MAX) return;
  constexpr std::string_view kWhy =
      "ringwood: this host has a name of 64 characters, and UCX takes 63: give it a shorter one "
      "(hostnamectl set-hostname NAME)\n";
  [[maybe_unused]] const ssize_t said = write(STDERR_FILENO, kWhy.data(), kWhy.size());
  _exit(ringwood::kExitConfiguration);
}

void BeforeLibraries() {
  ringwood::HoldStandardDescriptors();
  RefuseLongestHostName();
}

}  // namespace

// Before the constructors of libraries, which make descriptors (UCX).
[[gnu::section(".preinit_array"), gnu::used]] void (*const before_libraries)() = BeforeLibraries;

int main(int argc, char** argv) {
  std::signal(SIGCHLD, SIG_DFL);  // one that is ignored leaves no ending of a child to wait for
  std::signal(SIGXFSZ, SIG_IGN);  // a write beyond `ulimit -f` fails, as one on a full disk
  ringwood::Arguments arguments =
      ringwood::SplitArguments(std::vector<std::string>(argv + 1, argv + argc));
  std::error_code error;
  ringwood::CommandContext context;
  context.program = std::filesystem::read_symlink("/proc/self/exe", error).string();
  context.directory = std::filesystem::current_path(error).string();
  context.environment = ReadEnvironment();
  context.trailing = std::move(arguments.trailing);
  context.dashes = arguments.dashes;
  context.build = {ringwood::kCommit, RINGWOOD_BUILD_TYPE, RINGWOOD_COMPILER,
                   RINGWOOD_CUDA_VERSION};

  ringwood::CommandLine line("Gradient exchange for clusters with slow networks",
                             ringwood::BuildText(context.build));
  const ringwood::Command app = line.root();
  ringwood::AddRunCommand(app, &context);
  ringwood::AddWorkerCommand(app, &context);
  ringwood::AddServerCommand(app, &context);
  ringwood::AddCaCommand(app, &context);
  ringwood::AddCheckpointCommand(app, &context);
  ringwood::AddPullCommand(app, &context);
  ringwood::AddStatusCommand(app, &context);
  ringwood::AddTopCommand(app, &context);
  ringwood::AddJobsCommand(app, &context);
  ringwood::AddTokenCommand(app, &context);
  ringwood::AddPlanCommand(app, &context);
  ringwood::AddProbeCommand(app, &context);
  ringwood::AddSimulateCommand(app, &context);
  ringwood::AddBenchCommand(app, &context);
  ringwood::AddBenchSparseWorkerCommand(app, &context);
  ringwood::AddReplayCommand(app, &context);
  ringwood::AddReplayWorkerCommand(app, &context);
  ringwood::AddTraceCommand(app, &context);
  ringwood::AddDoctorCommand(app, &context);
  ringwood::AddCompletionCommand(app, &context, &line);
  ringwood::AddReferenceCommand(app, &context, &line);
  const ringwood::Status status = line.Parse(std::move(arguments.own));
  if (!status.ok()) ringwood::FailCommand(&context, status);
  ringwood::EndOutput(&context);
  return context.exit_code;
}
