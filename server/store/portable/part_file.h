// A file in the making, which is FILE when it is whole. Whoever looks at FILE sees what was there
// before or all of the new one. Until then it has no name, and what ends this process leaves
// nothing of it; where the file system cannot do that (NFS) it is FILE.part, which a crash leaves
// to be overwritten.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"

namespace ringwood {

class PartFile {
 public:
  // Reserves `bytes`, where the file system can, so that a full disk is known at once. Refused
  // where FILE is none (a folder, a device), and where another process has FILE.part; of several
  // without a name the last one stays. `name` is FILE, or a link to it.
  static StatusOr<std::unique_ptr<PartFile>> Create(const std::string& name, uint64_t bytes);
  ~PartFile();  // nothing is left of it unless it was published

  Status Append(const std::string& bytes);

  // Syncs and renames; durable when it returns.
  Status Publish();

 private:
  PartFile(std::string path, int descriptor, bool named);
  Status Reserve(uint64_t bytes);
  Status Name();
  Status Failed(const std::string& what) const;

  const std::string path_, part_;
  const int descriptor_;
  bool named_;  // FILE.part
  bool published_ = false;
};

}  // namespace ringwood
