// `ringwood trace merge | summary | flight`: what ranks wrote down, read after the run.
#pragma once

#include "cli/command.h"

namespace ringwood {

// `context` outlives the parsing.
void AddTraceCommand(Command app, CommandContext* context);

}  // namespace ringwood
