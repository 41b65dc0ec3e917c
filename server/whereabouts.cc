#include "server/whereabouts.h"

#include <unistd.h>

#include "proto/token.h"
#include "proto/token_file.h"

namespace ringwood {

Status LeaveAddress(const std::string& folder, const std::string& address) {
  return KeepToken(AddressFile(folder), address);
}

Status LeaveAccess(const ServerOptions& options) {
  if (!options.token.empty()) {
    RW_RETURN_IF_ERROR(KeepToken(TokenFile(options.store), options.token));
  }
  if (options.credentials == nullptr) return OkStatus();
  return KeepToken(IdentityFile(options.store), options.credentials->identity().folder);
}

void TakeBackWhereabouts(const std::string& folder) {
  for (const std::string& file : {AddressFile(folder), TokenFile(folder), IdentityFile(folder)}) {
    unlink(file.c_str());
  }
}

}  // namespace ringwood
