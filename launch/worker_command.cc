#include <memory>

#include "launch/agent.h"
#include "launch/command.h"

namespace ringwood {

void AddWorkerCommand(CLI::App& app, CommandContext* context) {
  CLI::App* command = app.add_subcommand(
      "worker", "Run one host's part of a job (started by `ringwood run`, not by hand)");
  auto source = std::make_shared<std::string>();
  command->add_option("source", *source, "-: the job comes on standard input")
      ->required()
      ->check(CLI::IsMember({"-"}));
  command->callback([context, source] {
    Agent agent({0, 1, context->environment});
    context->exit_code = agent.Run();
  });
}

}  // namespace ringwood
