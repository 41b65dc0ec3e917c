// A command that is `ringwood run` with a trainer of ours.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cli/command.h"

namespace ringwood {

// Where such a job runs: flags that are passed to the run command unchanged.
struct InnerRunFlags {
  int workers = 0;
  std::string hosts = {}, rsh = {}, remote_program = {}, network_interface = {};
  bool trusted_fabric = false;
};

// Adds the flags; returns the flag --workers.
Flag AddInnerRunFlags(Command command, InnerRunFlags* flags);

// Runs the job. `more` are further flags of `run` with their values; those with empty values are
// left out. `arguments` are those of the ranks, which run this program (on other hosts by its path
// there). The exit code goes to `context`. An error names the argument that is wrong.
Status InnerRun(CommandContext* context, const InnerRunFlags& flags,
                const std::vector<std::pair<std::string, std::string>>& more,
                std::vector<std::string> arguments);

}  // namespace ringwood
