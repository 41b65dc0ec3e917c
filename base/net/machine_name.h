// The name that this machine gives itself.
#pragma once

#include <string>

namespace ringwood {

// As `hostname` prints it; "localhost" where it has none.
std::string MachineName();

}  // namespace ringwood
