#include "server/whereabouts.h"

#include <unistd.h>

#include "proto/token.h"
#include "proto/token_file.h"

namespace ringwood {

Status LeaveWhereabouts(const ServerOptions& options, const std::string& address) {
  if (!options.token.empty()) {
    RW_RETURN_IF_ERROR(KeepToken(TokenFile(options.store), options.token));
  }
  if (options.credentials != nullptr) {
    RW_RETURN_IF_ERROR(
        KeepToken(IdentityFile(options.store), options.credentials->identity().folder));
  }
  return KeepToken(AddressFile(options.store),
                   address + (options.start.empty() ? "" : "\n" + options.start));
}

void TakeBackWhereabouts(const std::string& folder, const std::string& address) {
  const auto left = ReadTokenFile("the store", AddressFile(folder));
  if (!left.ok() || *left != address) return;
  for (const std::string& file : {AddressFile(folder), TokenFile(folder), IdentityFile(folder)}) {
    unlink(file.c_str());
  }
}

}  // namespace ringwood
