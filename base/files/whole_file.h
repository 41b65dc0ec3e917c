// Small files that are written whole or not at all.
#pragma once

#include <string>

#include "base/status.h"

namespace ringwood {

// Writes a new file beside its place, with its content on the disk before it gets its name; readers
// of `path`, or of the file that it links to, see the old or the new content, whole. Its mode:
// `mode` less the umask. Unavailable where the disk is full or fails, Refused otherwise; the old
// file is left as it was then.
Status WriteWhole(const std::string& path, const std::string& content, int mode);

}  // namespace ringwood
