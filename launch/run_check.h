// Checks a job before anything of it is started, as far as this host can tell.
#pragma once

#include "base/status.h"
#include "launch/run.h"

namespace ringwood {

// Whether all that the run starts listens on loopback addresses only.
bool OnLoopback(const RunOptions& run);

// Several hosts need a network interface, and a network that is declared private.
Status CheckNetwork(const RunOptions& run);

// A remote shell such as ssh joins its arguments to one line, which a shell reads on the other
// host: the program's path there must be one plain word.
Status CheckRemoteProgram(const RunOptions& run);

// Files that ranks of this machine will write or read: a report that cannot be written would
// otherwise be noticed only after the training.
Status CheckFiles(const RunOptions& run);

// Arguments, variables and paths travel as JSON, so they have to be UTF-8.
Status CheckText(const RunOptions& run);

}  // namespace ringwood
