#include "cli/flags/command_context.h"

#include <cstdio>

#include "launch/supervision/ending.h"

namespace ringwood {

void FailCommand(CommandContext* context, const Status& status) {
  std::fprintf(stderr, "ringwood: %s\n", Message(status).c_str());
  context->exit_code = ExitCodeOf(status);
}

void EndOutput(CommandContext* context) {
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (written || context->exit_code != 0) return;
  FailCommand(context, Invalid("standard output cannot be written: is its disk full?"));
}

}  // namespace ringwood
