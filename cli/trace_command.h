// `ringwood trace merge | summary | flight`: reads what ranks recorded.
#pragma once

#include "cli/command.h"

namespace ringwood {

// `context` outlives the parsing.
void AddTraceCommand(Command app, CommandContext* context);

}  // namespace ringwood
