// `ringwood probe`: the costs of this network, in the form that `ringwood plan` takes.
#pragma once

#include "cli/command.h"

namespace ringwood {

// `context` outlives the parsing.
void AddProbeCommand(Command app, CommandContext* context);

}  // namespace ringwood
