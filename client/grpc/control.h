// Control over gRPC.
#pragma once

#include <memory>
#include <string>

#include "client/connection/control.h"
#include "proto/access.h"

namespace ringwood {

// `address` is "host:port". Connects with the first call; every call carries the token.
std::unique_ptr<Control> MakeGrpcControl(const std::string& address, const Access& access);

}  // namespace ringwood
