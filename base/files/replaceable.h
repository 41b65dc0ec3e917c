// Files that are written beside their place and renamed to it, so that nobody sees half of one.
#pragma once

#include <string>

#include "base/status.h"

namespace ringwood {

// The file that is replaced when `path` is written: `path`, or what it names as a link, which need
// not be there yet. Refused where the rename would remove anything but a regular file (root could
// remove even /dev/null), and where it cannot work: in /dev (but for /dev/shm) and in /proc, even
// for a name that leads on to a file, as /dev/stdout does.
StatusOr<std::string> ReplaceableFile(const std::string& path);

}  // namespace ringwood
