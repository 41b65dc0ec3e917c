// Pinning by hand.
#pragma once

#include <string>

#include "base/status.h"
#include "server/store/record/checkpoint_key.h"

namespace ringwood {

// Of a store, also beside a server that runs. Answers which checkpoint it is: the newest that
// `wanted` names, as CheckpointReader::Resolve has it; for Unpin among those that are pinned.
StatusOr<CheckpointId> PinCheckpoint(const std::string& store_dir, const WantedCheckpoint& wanted,
                                     const std::string& label);
StatusOr<CheckpointId> UnpinCheckpoint(const std::string& store_dir,
                                       const WantedCheckpoint& wanted);

}  // namespace ringwood
