// How much of a disk a store may take. A checkpoint that would take more fails as on a full disk:
// the one before stays, and training goes on.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

#include "base/status.h"

namespace ringwood {

// Of all files below a directory; what cannot be read counts nothing.
uint64_t BytesBelow(const std::string& directory);

class StoreQuota {
 public:
  StoreQuota(std::string directory, uint64_t most_bytes)  // 0: no limit
      : directory_(std::move(directory)), most_bytes_(most_bytes) {}

  // Looks at the disk, before a checkpoint begins. Any thread.
  void Measure();

  // So many more are written. Exhausted: with what there is they are too many. Any thread.
  Status Take(uint64_t bytes);

 private:
  const std::string directory_;
  const uint64_t most_bytes_;
  std::atomic<uint64_t> used_{0};  // as measured, and what was taken since
};

}  // namespace ringwood
