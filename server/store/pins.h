// Checkpoints that somebody asked to be kept: small files beside the database, so that they can be
// made and removed while a server runs.
//
//   DIR/checkpoints/pins/EPOCH-STEP    a label for people, or nothing
#pragma once

#include <map>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "server/store/record/checkpoint_key.h"

namespace ringwood {

inline constexpr size_t kMaxLabelBytes = 200;

// Labels, safe to print. Files of other names are not ours and are left alone. `directory`:
// DIR/checkpoints.
StatusOr<std::map<CheckpointId, std::string>> ReadPins(const std::string& directory);

// Where the pin of a checkpoint is, which may have none.
std::string PinFile(const std::string& directory, const CheckpointId& id);

// Held while checkpoints are chosen for removal, and while one is pinned: what is pinned is there,
// and stays. Released at the latest when its process ends.
class PinLock {
 public:
  // Unavailable: another process still had it after `patience`.
  static StatusOr<std::unique_ptr<PinLock>> Take(const std::string& directory, Duration patience);
  ~PinLock();

 private:
  explicit PinLock(int descriptor) : descriptor_(descriptor) {}
  const int descriptor_;
};

}  // namespace ringwood
