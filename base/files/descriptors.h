// The files that this process may open (RLIMIT_NOFILE).
#pragma once

#include <cstdint>

#include "base/status.h"

namespace ringwood {

// How many are open; 0 where the kernel does not say.
uint64_t CountDescriptors();

// Raises the soft limit to `soft`, unless it is higher already.
Status RaiseDescriptorLimit(uint64_t soft);

// Refused, with the numbers, where the hard limit leaves too few to start with: gRPC, UCX and our
// own threads stop a program that has none left. Raises the soft limit to those.
Status ReserveDescriptors();

}  // namespace ringwood
