// What main hands to every command of the ringwood program.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "cli/pages/build_facts.h"
#include "launch/hosts.h"

namespace ringwood {

struct CommandContext {
  std::string program;                // this program's absolute path
  std::string directory;              // the current one
  Environment environment;            // read once, by main
  std::vector<std::string> trailing;  // the arguments after "--"
  bool dashes = false;                // there was a "--"
  Build build;                        // of this program
  int exit_code = 0;                  // of the program
};

// Prints the error and sets the exit code, 75 or 78.
void FailCommand(CommandContext* context, const Status& status);

// What was printed reaches standard output now, or the command has failed: a script must not go on
// with half of it.
void EndOutput(CommandContext* context);

}  // namespace ringwood
