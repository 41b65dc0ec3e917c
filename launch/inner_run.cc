#include "launch/inner_run.h"

#include <algorithm>

namespace ringwood {

CLI::Option* AddInnerRunFlags(CLI::App* command, InnerRunFlags* flags) {
  command->add_option("-H,--hosts", flags->hosts, "h1:4,h2:4, as for ringwood run");
  command->add_option("--rsh", flags->rsh, "Remote shell, as for ringwood run");
  command->add_option("--remote-program", flags->remote_program, "ringwood on the other hosts");
  command->add_option("--network-interface", flags->network_interface, "As for ringwood run");
  command->add_flag("--trusted-fabric", flags->trusted_fabric, "As for ringwood run");
  return command->add_option("--workers", flags->workers, "Ranks")->check(CLI::Range(1, 16384));
}

Status InnerRun(CommandContext* context, const InnerRunFlags& flags,
                const std::vector<std::pair<std::string, std::string>>& more,
                std::vector<std::string> arguments) {
  CommandContext inner = *context;
  inner.trailing = std::move(arguments);
  inner.trailing.insert(inner.trailing.begin(),
                        flags.remote_program.empty() ? context->program : flags.remote_program);
  inner.dashes = true;
  CLI::App app;
  AddRunCommand(app, &inner);
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
  std::reverse(run.begin(), run.end());
  try {  // CLI11 reports by exceptions; they end here
    app.parse(std::move(run));
  } catch (const CLI::ParseError& error) {
    return Invalid(error.what());
  }
  context->exit_code = inner.exit_code;
  return OkStatus();
}

}  // namespace ringwood
