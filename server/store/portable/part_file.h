// A file in the making: FILE.part until it is whole, then FILE. Whoever looks at FILE sees what was
// there before or all of the new one, also after a crash, which leaves FILE.part to be overwritten.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"

namespace ringwood {

class PartFile {
 public:
  // Reserves `bytes`, where the file system can, so that a full disk is known at once. Refused
  // where another process makes the same file, and where FILE is none (a folder, a device).
  static StatusOr<std::unique_ptr<PartFile>> Create(const std::string& path, uint64_t bytes);
  ~PartFile();  // removes FILE.part unless it was published

  Status Append(const std::string& bytes);

  // Syncs and renames; durable when it returns.
  Status Publish();

 private:
  PartFile(std::string path, int descriptor);
  Status Failed(const std::string& what) const;

  const std::string path_, part_;
  const int descriptor_;
  bool published_ = false;
};

}  // namespace ringwood
