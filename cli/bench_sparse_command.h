// `ringwood bench select` and `ringwood bench sparse`; and `ringwood bench-sparse-worker`, the
// ranks of the latter.
#pragma once

#include "cli/command.h"

namespace ringwood {

// `bench`: the parent command. `context` outlives the parsing.
void AddBenchSelectCommand(Command bench, CommandContext* context);
void AddBenchSparseCommand(Command bench, CommandContext* context);
void AddBenchSparseWorkerCommand(Command app, CommandContext* context);

}  // namespace ringwood
