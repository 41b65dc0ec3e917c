// `ringwood probe`: the costs of this network, in the words of `ringwood plan`.
#pragma once

#include "cli/command.h"

namespace ringwood {

// `context` outlives the parsing.
void AddProbeCommand(Command app, CommandContext* context);

}  // namespace ringwood
