// By what this user's commands find a server: files in the folder of its store, or of a deployed
// job's, which say where it serves and what its callers bring (proto/token.h). Only this user can
// read them. Errors: a file cannot be written; then callers must name the server themselves.
#pragma once

#include <string>

#include "base/status.h"
#include "server/server_options.h"

namespace ringwood {

// In `options.store`: the token and the folder of the certificate, where there are such, and then
// `address` (HOST:PORT) with the number of the server's start below it, so that whoever finds it
// has what to bring.
Status LeaveWhereabouts(const ServerOptions& options, const std::string& address);

// Removes what was left there with this address. What another server has left since stays.
void TakeBackWhereabouts(const std::string& folder, const std::string& address);

}  // namespace ringwood
