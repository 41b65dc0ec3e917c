// `ringwood plan`: what each planner would do with a profile on a network.
#pragma once

#include "cli/command.h"

namespace ringwood {

// `exit_code` is set when the command runs; it outlives the parsing.
void AddPlanCommand(Command app, CommandContext* context);

}  // namespace ringwood
