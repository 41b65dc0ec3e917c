// Where the certificates and keys of a host's processes lie while they run: a folder in memory that
// only this user can open, where the host has one.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "base/status.h"
#include "identity/authority.h"

namespace ringwood {

class KeyFolder {
 public:
  // Made in the first of XDG_RUNTIME_DIR, /dev/shm, TMPDIR and /tmp that can be written.
  static StatusOr<KeyFolder> Make(const std::map<std::string, std::string>& environment);
  KeyFolder(KeyFolder&& other) noexcept;
  KeyFolder& operator=(KeyFolder&& other) noexcept;
  ~KeyFolder();  // removes it

  // Writes them; returns the folder that RINGWOOD_IDENTITY names.
  StatusOr<std::string> Write(size_t slot, const std::string& authority, const Leaf& leaf) const;
  Status Replace(size_t slot, const std::string& certificate) const;

 private:
  explicit KeyFolder(std::string path) : path_(std::move(path)) {}
  std::string Of(size_t slot) const { return path_ + "/" + std::to_string(slot); }

  std::string path_;  // empty: moved away
};

}  // namespace ringwood
