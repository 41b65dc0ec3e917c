#include "proto/access.h"

#include <ctime>
#include <fstream>

#include "proto/token.h"

namespace ringwood {

namespace {

constexpr double kExplainSeconds = 3;  // a handshake, on a loaded machine

}  // namespace

StatusOr<std::shared_ptr<const Credentials>> OpenCredentials(const std::string& folder) {
  if (folder.empty()) return std::shared_ptr<const Credentials>();
  return Credentials::Open(folder, std::time(nullptr));
}

std::string KeptIdentity(const std::string& store) {
  std::ifstream file(IdentityFile(store));
  std::string folder;
  std::getline(file, folder);
  return folder;
}

Status WhyRefused(const std::string& address, const Access& access) {
  const Credentials* const own = access.credentials.get();
  return ExplainConnection(address, own == nullptr ? nullptr : &own->identity(),
                           Seconds(kExplainSeconds));
}

}  // namespace ringwood
