// UpdateClient over gRPC, on a connection of its own.
#pragma once

#include <memory>
#include <string>

#include "client/updates/update_client.h"

namespace ringwood {

// Every call carries `token`.
std::unique_ptr<UpdateClient> MakeGrpcUpdateClient(const std::string& address,
                                                   const std::string& token);

}  // namespace ringwood
