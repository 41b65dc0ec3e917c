// Charts on disk.
#pragma once

#include <string>

#include "base/status.h"

namespace ringwood {

// The file has its old content until the new one is whole, also where the disk is full.
Status WriteText(const std::string& file, const std::string& text);

// FILE.svg is written as it is; FILE.png through rsvg-convert (Debian package librsvg2-bin), which
// gets 60 s. Other endings are an error.
Status WriteChart(const std::string& file, const std::string& svg);

}  // namespace ringwood
