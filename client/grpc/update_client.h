// UpdateClient over gRPC, on a connection of its own.
#pragma once

#include <memory>
#include <string>

#include "client/updates/update_client.h"
#include "proto/access.h"

namespace ringwood {

// Every call carries the token.
std::unique_ptr<UpdateClient> MakeGrpcUpdateClient(const std::string& address,
                                                   const Access& access);

}  // namespace ringwood
