// The command that a server serves: `ringwood server … -- srun python train.py`. It starts the
// ranks in whatever way, here or elsewhere, and they find their job in the environment that it
// hands on.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "launch/hosts.h"
#include "launch/process.h"

namespace ringwood {

// What all ranks read of `context`, over `own`: the coordinator's address, the token, and how they
// reach each other. Who they are they hear from what starts them. `server_host`: the host of the
// server, where the first rank of each other host shall start a reducer; else empty.
Environment ServedEnvironment(Environment own, const RankContext& context,
                              const std::string& server_host);

// Its output is ours, its input is empty. `file_mask`: the umask with which we were started.
StatusOr<std::unique_ptr<Process>> StartServed(const std::vector<std::string>& command,
                                               const Environment& environment, mode_t file_mask);

}  // namespace ringwood
