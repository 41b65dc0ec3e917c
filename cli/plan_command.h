// `ringwood plan`: what each planner would do with a profile on a network.
#pragma once

#include "cli/command.h"

namespace ringwood {

// Reducers to plan for where none are given: one on each host, as `ringwood run` starts them.
int ServersPlanned(int given, int workers, int ranks_per_host);

// `exit_code` is set when the command runs; it outlives the parsing.
void AddPlanCommand(Command app, CommandContext* context);

}  // namespace ringwood
