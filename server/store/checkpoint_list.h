// Lists what a store holds, for people and tools. Opens read-only, also while a server runs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "ringwood/v1/store.pb.h"
#include "server/store/checkpoint_key.h"

namespace ringwood {

struct CheckpointSummary {
  uint64_t step = 0;
  uint64_t epoch = 0;
  uint64_t job = 0;
  uint64_t bytes = 0;
  int world = 0;
  int64_t unix_seconds = 0;
  bool complete = false;
  bool damaged = false;  // it was complete; its manifest cannot be read any more
  std::string problem;   // why it cannot be used; empty: none found (Verify checks the bytes)
};

// Newest first; incomplete ones too. NotFound if there is no store, Refused for another format.
StatusOr<std::vector<CheckpointSummary>> ListCheckpoints(const std::string& store_dir);

// The manifest. Epoch 0: the newest that has the step; step 0 as well: the newest checkpoint.
StatusOr<v1::CheckpointManifest> ShowCheckpoint(const std::string& store_dir,
                                                const CheckpointId& wanted);

// Reads every byte; Corrupt names the first damaged item.
Status VerifyCheckpoint(const std::string& store_dir, const CheckpointId& wanted);

}  // namespace ringwood
