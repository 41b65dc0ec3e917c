// Files that are written beside their place and renamed to it, so that nobody sees half of one.
#pragma once

#include <string>

#include "base/status.h"

namespace ringwood {

// Refused where something else than a regular file is at `path`: the renaming would remove it, for
// root even /dev/null. A link is followed.
Status CheckReplaceable(const std::string& path);

}  // namespace ringwood
