// `ringwood simulate`: how a plan scales, played worker by worker.
#pragma once

#include "cli/command.h"

namespace ringwood {

// `exit_code` is set when the command runs; it outlives the parsing.
void AddSimulateCommand(Command app, CommandContext* context);

}  // namespace ringwood
