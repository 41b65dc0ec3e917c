// Makes a checkpoint of a safetensors file, from which a job of any size resumes.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "server/store/checkpoint_reader.h"

namespace ringwood {

// The header of the file that a checkpoint was made of, JSON, as a shared item: it says which
// tensors there are, and of which types and shapes.
inline constexpr char kImportedItem[] = "imported/safetensors";

struct ImportRequest {
  // DIR; made where there is none. Refused while a server uses it, and for one that only has parts.
  std::string store;
  std::string file;
  uint64_t job = 0;   // which continues from it; not 0
  uint64_t step = 0;  // from which it counts on, at most 2^39
  int64_t unix_seconds = 0;
};

// The tensor NAME is the shared item "model/NAME". The checkpoint is of one rank and of an epoch of
// its own, newer than all that the store knows, so it is what a resume finds. It is written as
// those of ranks are: durable and verified when this returns, else not there. In memory is one
// chunk, and the header. `progress` is called for each chunk.
StatusOr<v1::CheckpointManifest> ImportCheckpoint(const ImportRequest& request,
                                                  const ReadProgress& progress);

}  // namespace ringwood
