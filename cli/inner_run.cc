#include "cli/inner_run.h"

namespace ringwood {

Flag AddInnerRunFlags(Command command, InnerRunFlags* flags) {
  command.Value("-H,--hosts", &flags->hosts,
                "Start the ranks on these hosts, e.g. h1:4,h2:4 (default: this machine)");
  command.Value("--rsh", &flags->rsh,
                "Reach other hosts by this remote shell, as for ringwood run");
  command.Value("--remote-program", &flags->remote_program,
                "Call this ringwood on the other hosts");
  command.Value("--network-interface", &flags->network_interface,
                "Use this network interface, as for ringwood run");
  command.Switch("--trusted-fabric", &flags->trusted_fabric,
                 "Declare that only this job's hosts reach that network");
  return command.Value("--workers", &flags->workers, "Start this many ranks").Within(1, 16384);
}

Status InnerRun(CommandContext* context, const InnerRunFlags& flags,
                const std::vector<std::pair<std::string, std::string>>& more,
                std::vector<std::string> arguments) {
  CommandContext inner = *context;
  inner.trailing = std::move(arguments);
  inner.trailing.insert(inner.trailing.begin(),
                        flags.remote_program.empty() ? context->program : flags.remote_program);
  inner.dashes = true;
  CommandLine line("", "");
  AddRunCommand(line.root(), &inner);
  std::vector<std::string> run = {"run", "--num-proc=" + std::to_string(flags.workers)};
  const auto add = [&](const std::string& flag, const std::string& value) {
    if (!value.empty()) run.push_back(flag + "=" + value);
  };
  add("--hosts", flags.hosts);
  add("--rsh", flags.rsh);
  add("--remote-program", flags.remote_program);
  add("--network-interface", flags.network_interface);
  for (const auto& [flag, value] : more) add(flag, value);
  if (flags.trusted_fabric) run.push_back("--trusted-fabric");
  RW_RETURN_IF_ERROR(line.Parse(std::move(run)));
  context->exit_code = inner.exit_code;
  return OkStatus();
}

}  // namespace ringwood
