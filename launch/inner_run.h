// A command that is `ringwood run` with a trainer of ours.
#pragma once

#include <string>
#include <vector>

#include "launch/command.h"

namespace ringwood {

// Hands `arguments` to the run command and `command` to its ranks; the exit code goes to `context`.
// An error names the argument that is wrong.
Status InnerRun(CommandContext* context, std::vector<std::string> arguments,
                std::vector<std::string> command);

}  // namespace ringwood
