// The commands of the ringwood program.
#pragma once

#include "cli/flags/command_context.h"
#include "cli/flags/flags.h"

namespace ringwood {

// `context` outlives the parsing.
void AddRunCommand(Command app, CommandContext* context);
void AddWorkerCommand(Command app, CommandContext* context);
void AddServerCommand(Command app, CommandContext* context);
void AddCaCommand(Command app, CommandContext* context);
void AddCheckpointCommand(Command app, CommandContext* context);
void AddStatusCommand(Command app, CommandContext* context);
void AddTopCommand(Command app, CommandContext* context);
void AddJobsCommand(Command app, CommandContext* context);
void AddTokenCommand(Command app, CommandContext* context);
void AddPullCommand(Command app, CommandContext* context);
void AddTraceCommand(Command app, CommandContext* context);
void AddBenchCommand(Command app, CommandContext* context);
void AddDoctorCommand(Command app, CommandContext* context);

}  // namespace ringwood
