// StoreClient over gRPC, on a connection of its own, so that bulk data does not delay heartbeats
// and votes.
#pragma once

#include <memory>
#include <string>

#include "client/checkpoint/store_client.h"

namespace ringwood {

// Every call carries `token`.
std::unique_ptr<StoreClient> MakeGrpcStoreClient(const std::string& address,
                                                 const std::string& token);

}  // namespace ringwood
