// What the folder of a store can do: written to for a second at most, and left as it was.
#pragma once

#include <string>

#include "doctor/facts.h"

namespace ringwood {

// A folder that is not there yet stands for the nearest one above it that is; one that
// cannot be there, below a file, is an error. Blocks.
DiskFacts MeasureDisk(const std::string& path);

// "ext4", "nfs"; a number in hexadecimal where the name is not known. Of statfs(2).
std::string FileSystemName(uint64_t type);

}  // namespace ringwood
