// What an all-reduce of this job costs, measured over the job's own rings.
#pragma once

#include "base/status.h"
#include "client/session.h"
#include "plan/model/probe.h"

namespace ringwood {

// A collective call: every rank of an agreed session makes it. Messages of 4 KiB to 32 MiB, four
// rounds; the seconds of a message are this rank's, from a barrier to its own end.
StatusOr<ProbeResult> ProbeRing(Session* session);

// All ranks are here.
Status Barrier(Session* session);

}  // namespace ringwood
