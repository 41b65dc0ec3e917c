// Retention by hand, of a store that no server uses.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "server/store/checkpoint_reader.h"
#include "server/store/record/retention.h"
#include "server/store/view/store_view.h"

namespace ringwood {

struct PruneResult {
  std::vector<CheckpointSummary> removed;  // or that would be
  std::vector<CheckpointSummary> damaged;  // found on the way; `problem` says where
};

// Reads checkpoints from the newest on until as many as are to be kept of each job are known to be
// good, then removes what Superfluous names. With `dry_run` nothing changes, and a server may use
// the store; else Refused while one does. `further`: as for VerifyCheckpoint; parts of what is
// removed go when the job's servers run again.
StatusOr<PruneResult> PruneStore(const std::string& store_dir, const Retention& retention,
                                 bool dry_run, const ReadProgress& progress,
                                 const std::vector<std::string>& further = {});

}  // namespace ringwood
