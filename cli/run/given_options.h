// What `ringwood run` starts, from the flags that it was given.
#pragma once

#include "base/status.h"
#include "cli/flags/command_context.h"
#include "cli/run/run_flags.h"
#include "launch/run.h"

namespace ringwood {

// Places the ranks on the hosts, which may stand in a file, and checks what can be checked here
// (launch/run_check.h); the token, and the number of a new job, are random. Errors name the flag.
// Without --store the place of a temporary one is not chosen yet.
StatusOr<RunOptions> RunOptionsGiven(const CommandContext& context, const RunFlags& flags);

}  // namespace ringwood
