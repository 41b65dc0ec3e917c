#include <memory>

#include "cli/command.h"
#include "launch/agent.h"

namespace ringwood {

void AddWorkerCommand(Command app, CommandContext* context) {
  Command command = app.Subcommand(
      "worker", "Run one host's part of a job (started by `ringwood run`, not by hand)");
  auto source = std::make_shared<std::string>();
  command.Value("source", source.get(), "Read the job from standard input").Required().OneOf({"-"});
  command.Run(context, [context, source] {
    Agent agent({0, 1, context->environment});
    context->exit_code = agent.Run();
    return OkStatus();
  });
}

}  // namespace ringwood
