// client/connection/ring_probe.h over an agreed session.
#pragma once

#include "base/status.h"
#include "client/connection/ring_probe.h"
#include "client/session.h"

namespace ringwood {

// Messages of 4 KiB to 32 MiB.
StatusOr<ProbeResult> ProbeRing(Session* session);

// Returns when all ranks have called it.
Status Barrier(Session* session);

}  // namespace ringwood
