// A command that is `ringwood run` with a trainer of ours.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cli/command.h"

namespace ringwood {

// Where such a job runs: flags that go to the run command as they stand.
struct InnerRunFlags {
  int workers = 0;
  std::string hosts = {}, rsh = {}, remote_program = {}, network_interface = {};
  bool trusted_fabric = false;
};

// Adds them; the answer is the option --workers.
Flag AddInnerRunFlags(Command command, InnerRunFlags* flags);

// Starts the job. `more` are further flags of `run` and their values, left out where these are
// empty; `arguments` are the ranks': this program's on hosts that have it elsewhere by its name
// there. The exit code goes to `context`. An error names the argument that is wrong.
Status InnerRun(CommandContext* context, const InnerRunFlags& flags,
                const std::vector<std::pair<std::string, std::string>>& more,
                std::vector<std::string> arguments);

}  // namespace ringwood
