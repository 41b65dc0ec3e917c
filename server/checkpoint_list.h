// What a store holds, for people and tools. Opens read-only: also while a server runs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace ringwood {

struct CheckpointSummary {
  uint64_t step = 0;
  uint64_t epoch = 0;
  uint64_t bytes = 0;
  int world = 0;
  int64_t unix_seconds = 0;
  bool complete = false;
  std::string problem;  // why it cannot be used; empty: none seen (bytes are Verify's business)
};

// Newest first; incomplete ones too. NotFound where there is no store, Refused for another format.
StatusOr<std::vector<CheckpointSummary>> ListCheckpoints(const std::string& store_dir);

// The manifest as text; step 0: the newest.
StatusOr<std::string> ShowCheckpoint(const std::string& store_dir, uint64_t step);

// Reads every byte; Corrupt names the first damaged item.
Status VerifyCheckpoint(const std::string& store_dir, uint64_t step);

}  // namespace ringwood
