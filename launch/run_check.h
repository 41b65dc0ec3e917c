// What is wrong with a job is found before anything of it has started, as far as it can be seen
// from here.
#pragma once

#include "base/status.h"
#include "launch/run.h"

namespace ringwood {

// A card where several hosts need one, and a network that somebody declared private.
Status CheckNetwork(const RunOptions& run);

// A remote shell such as ssh joins its arguments to one line, which a shell reads on the other
// host: the program's path there must be one plain word.
Status CheckRemoteProgram(const RunOptions& run);

// Files that ranks of this machine will write or read. A report that cannot be written would be
// found missing when the training is over.
Status CheckFiles(const RunOptions& run);

// Arguments, variables and paths travel as JSON, so they have to be UTF-8.
Status CheckText(const RunOptions& run);

}  // namespace ringwood
