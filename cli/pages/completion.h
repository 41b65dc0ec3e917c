// What shells complete after `ringwood `: commands, their flags, and the values of flags.
#pragma once

#include <string>
#include <vector>

#include "cli/pages/command_text.h"

namespace ringwood {

// Scripts that the shell reads. After "--" stands another program, whose own completion is asked.
std::string BashCompletion(const std::vector<CommandText>& commands);
std::string FishCompletion(const std::vector<CommandText>& commands);
std::string ZshCompletion(const std::vector<CommandText>& commands);

}  // namespace ringwood
