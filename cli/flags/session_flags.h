// The flags of `ringwood run` that set an option of the ranks' sessions: made from the table of
// options (client/options/option_table.h), which names, checks and explains them.
#pragma once

#include "cli/flags/flags.h"
#include "client/options/options.h"
#include "launch/hosts.h"

namespace ringwood {

// Each flag, or its environment variable, writes the option's variable into `session`, which
// outlives the parsing; what is not given stays empty or is not there.
void AddSessionFlags(Command command, Environment* session);

// One of these flags for another command, without its variable; `option` is the row's name.
Flag AddSessionFlag(Command command, const std::string& option, std::string* value);

// What the ranks will read from it; an error where options do not fit each other.
StatusOr<SessionOptions> SessionOptionsGiven(const Environment& session);

}  // namespace ringwood
