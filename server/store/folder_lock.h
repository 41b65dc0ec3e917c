// A folder that one process at a time has: the lock of a file in it, which ends with the process at
// the latest.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "server/store/lock_patience.h"

namespace ringwood {

class FolderLock {
 public:
  // FOLDER/lock, which is made where it is missing, and stays. With AwaitLock's errors; Refused: it
  // cannot be opened.
  static StatusOr<std::unique_ptr<FolderLock>> Take(const std::string& folder,
                                                    const LockPatience& patience);
  ~FolderLock();

 private:
  explicit FolderLock(int descriptor) : descriptor_(descriptor) {}
  const int descriptor_;
};

}  // namespace ringwood
