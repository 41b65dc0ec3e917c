// File descriptors: a node has a connection to every other one, and a process may open a limited
// number of files.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.h"

namespace ringwood {

struct DescriptorLimits {
  uint64_t open = 0;  // by this process
  uint64_t soft = 0;
  uint64_t hard = 0;
};

// The soft limit needed for `peers` connections of `each` descriptors, and some for everything
// else. Refused, with the numbers, if the hard limit is below that.
StatusOr<uint64_t> SoftLimitFor(const DescriptorLimits& now, size_t peers, size_t each);

// Raises this process's soft limit (RLIMIT_NOFILE) to that; never lowers it. Programs that use
// select() break with descriptors above 1023, so it is raised no further than needed.
Status ReserveDescriptors(size_t peers, size_t each);

}  // namespace ringwood
