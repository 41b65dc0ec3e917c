// Decides who may call: one place for all services, calls and streams. gRPC asks it about every
// call, also of methods that do not exist, before the call is processed.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "base/status.h"

namespace ringwood {

// Plaintext; a call without `token` in its metadata (proto/token.h) ends with PERMISSION_DENIED and
// the remedy. Empty: everybody may call.
std::shared_ptr<grpc::ServerCredentials> TokenCredentials(const std::string& token);

// Writes the token, or where the server is, to a file that only this user can read (0600), for
// `ringwood status --store` and `ringwood pull --store`; replaces an older file. A link there is
// not followed.
Status KeepToken(const std::string& file, const std::string& token);

}  // namespace ringwood
