// `man ringwood`: every command and flag, as --help has them.
#pragma once

#include <string>
#include <vector>

#include "cli/pages/command_text.h"

namespace ringwood {

// The page in the man macros of troff, section 1.
std::string ManualPage(const std::vector<CommandText>& commands, const std::string& version);

}  // namespace ringwood
