// Control over gRPC.
#pragma once

#include <memory>
#include <string>

#include "client/connection/control.h"
#include "proto/access.h"

namespace ringwood {

// `address` is "host:port". Connects with the first call; every call carries the token.
// `grace_seconds`: how long a process that waits to join looks for a coordinator that is lost;
// negative: by the job's mode, proto/attachment.h.
std::unique_ptr<Control> MakeGrpcControl(const std::string& address, const Access& access,
                                         double grace_seconds = -1);

}  // namespace ringwood
