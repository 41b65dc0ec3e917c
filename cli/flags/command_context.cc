#include "cli/flags/command_context.h"

#include <cstdio>

#include "launch/supervision/ending.h"

namespace ringwood {

void FailCommand(CommandContext* context, const Status& status) {
  std::fprintf(stderr, "ringwood: %s\n", Message(status).c_str());
  context->exit_code = ExitCodeOf(status);
}

}  // namespace ringwood
