// Who may call. One place for all services, calls and streams: gRPC asks it about every call, also
// of methods that do not exist, before anything else of the call is looked at.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "base/status.h"

namespace ringwood {

// Plaintext; a call without `token` in its metadata (proto/token.h) ends with PERMISSION_DENIED and
// the remedy. Empty: everybody may call.
std::shared_ptr<grpc::ServerCredentials> TokenCredentials(const std::string& token);

// Leaves the token where only this user reads it (0600), for `ringwood status --store`; the file
// before goes. A link there is not followed.
Status KeepToken(const std::string& file, const std::string& token);

}  // namespace ringwood
