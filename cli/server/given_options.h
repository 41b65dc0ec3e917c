// What `ringwood server` does, from the flags that it was given.
#pragma once

#include "base/status.h"
#include "cli/flags/command_context.h"
#include "cli/server/server_flags.h"
#include "server/server_options.h"

namespace ringwood {

// Reads the token, the certificate and the limits of jobs, from the files that flags or environment
// name, and the address of the network interface. With a command after -- it completes what the job
// of that command needs. Errors name the flag. The functions that observe a server are not set.
StatusOr<ServerOptions> ServerOptionsGiven(const CommandContext& context, const ServerFlags& flags);

}  // namespace ringwood
