#include "launch/inner_run.h"

#include <algorithm>

namespace ringwood {

Status InnerRun(CommandContext* context, std::vector<std::string> arguments,
                std::vector<std::string> command) {
  CommandContext inner = *context;
  inner.trailing = std::move(command);
  inner.dashes = true;
  CLI::App app;
  AddRunCommand(app, &inner);
  arguments.insert(arguments.begin(), "run");
  std::reverse(arguments.begin(), arguments.end());
  try {  // CLI11 reports by exceptions; they end here
    app.parse(std::move(arguments));
  } catch (const CLI::ParseError& error) {
    return Invalid(error.what());
  }
  context->exit_code = inner.exit_code;
  return OkStatus();
}

}  // namespace ringwood
