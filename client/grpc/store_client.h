// StoreClient over gRPC, on a connection of its own: bulk does not hold up heartbeats and votes.
#pragma once

#include <memory>
#include <string>

#include "client/store_client.h"

namespace ringwood {

std::unique_ptr<StoreClient> MakeGrpcStoreClient(const std::string& address);

}  // namespace ringwood
