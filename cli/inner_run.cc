#include "cli/inner_run.h"

#include "cli/flags/session_flags.h"
#include "client/options/option_table.h"

namespace ringwood {

Flag AddInnerRunFlags(Command command, InnerRunFlags* flags) {
  const auto add = [&](const char* names, auto* value, const char* takes, const char* help) {
    return command.Value(names, value, help).Takes(takes);
  };
  add("-H,--hosts", &flags->hosts, "HOSTS",
      "Start the ranks on these hosts with so many slots, e.g. h1:4,h2:4; without it on this "
      "machine");
  add("--rsh", &flags->rsh, "COMMAND", "Reach other hosts by this remote shell");
  add("--remote-program", &flags->remote_program, "PATH", "Call this ringwood on the other hosts");
  AddSessionFlag(command, "interface_name", &flags->network_interface);
  command.Switch("--trusted-fabric", &flags->trusted_fabric, OptionNamed("trusted_fabric").help);
  return add("--workers", &flags->workers, "NUMBER", "Start this many ranks").Within(1, kMaxRanks);
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
