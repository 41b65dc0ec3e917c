// What is made of the flags themselves: `ringwood reference` prints docs/reference.md or the manual
// page, `ringwood completion` what a shell reads.
#pragma once

#include "cli/command.h"

namespace ringwood {

// `line` has all commands when these run.
void AddReferenceCommand(Command app, CommandContext* context, const CommandLine* line);
void AddCompletionCommand(Command app, CommandContext* context, const CommandLine* line);

}  // namespace ringwood
