// The threads that this process may start (RLIMIT_NPROC, and the limits of its container).
#pragma once

#include "base/status.h"

namespace ringwood {

// Exhausted, with the numbers, where it may not start so many more. For those of libraries, which
// wait for ever for a thread that they could not start.
Status CheckThreads(int count);

}  // namespace ringwood
