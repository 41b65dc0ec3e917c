// `ringwood replay`: a job whose trainer replays a model's profile; and `ringwood replay-worker`,
// its ranks.
#pragma once

#include "cli/command.h"

namespace ringwood {

// `context` outlives the parsing.
void AddReplayCommand(Command app, CommandContext* context);
void AddReplayWorkerCommand(Command app, CommandContext* context);

}  // namespace ringwood
