// Whether a worker that brings something is who it says: a member of the present epoch.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "ringwood/v1/state.pb.h"

namespace ringwood {

// Aborted: the epoch is over, or another process has the rank. Unavailable while `record` is of
// epoch 0: before all members have come back to a server that was started again, it is not known.
Status CheckSender(const v1::EpochRecord& record, uint64_t epoch, uint32_t rank,
                   uint64_t incarnation);

}  // namespace ringwood
