// `ringwood reference` prints docs/reference.md: the table of options, and what --help says.
#pragma once

#include "cli/command.h"

namespace ringwood {

// `line` has all commands when this one runs.
void AddReferenceCommand(Command app, CommandContext* context, const CommandLine* line);

}  // namespace ringwood
