#include "launch/keys/key_folder.h"

#include <cstdlib>
#include <filesystem>
#include <utility>

#include "identity/identity.h"

namespace ringwood {

StatusOr<KeyFolder> KeyFolder::Make(const std::map<std::string, std::string>& environment) {
  const auto given = [&](const char* name) {
    const auto found = environment.find(name);
    return found == environment.end() ? "" : found->second;
  };
  for (const std::string& place :
       {given("XDG_RUNTIME_DIR"), std::string("/dev/shm"), given("TMPDIR"), std::string("/tmp")}) {
    if (place.empty()) continue;
    std::string name = place + "/ringwood-keys-XXXXXX";
    if (::mkdtemp(name.data()) != nullptr) return KeyFolder(name);
  }
  return Refused(
      "no folder for keys can be made: neither XDG_RUNTIME_DIR, /dev/shm, TMPDIR nor /tmp can be "
      "written");
}

KeyFolder::KeyFolder(KeyFolder&& other) noexcept : path_(std::exchange(other.path_, "")) {}

KeyFolder& KeyFolder::operator=(KeyFolder&& other) noexcept {
  std::swap(path_, other.path_);
  return *this;
}

KeyFolder::~KeyFolder() {
  std::error_code error;
  if (!path_.empty()) std::filesystem::remove_all(path_, error);
}

StatusOr<std::string> KeyFolder::Write(size_t slot, const std::string& authority,
                                       const Leaf& leaf) const {
  RW_RETURN_IF_ERROR(WriteIdentity(Of(slot), authority, leaf));
  return Of(slot);
}

Status KeyFolder::Replace(size_t slot, const std::string& certificate) const {
  return ReplaceCertificate(Of(slot), certificate);
}

}  // namespace ringwood
