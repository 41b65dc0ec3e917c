// What an all-reduce of this job costs, measured over the job's own rings.
#pragma once

#include "base/status.h"
#include "client/session.h"
#include "plan/model/probe.h"

namespace ringwood {

// Collective: every rank of an agreed session calls it. Messages of 4 KiB to 32 MiB, four rounds;
// times are this rank's, from a barrier to its own end.
StatusOr<ProbeResult> ProbeRing(Session* session);

// Returns when all ranks have called it.
Status Barrier(Session* session);

}  // namespace ringwood
