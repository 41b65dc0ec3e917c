// StoreClient over gRPC, on a connection of its own, so that bulk data does not delay heartbeats
// and votes.
#pragma once

#include <memory>
#include <string>

#include "base/clock.h"
#include "client/checkpoint/store_client.h"
#include "client/grpc/channel.h"
#include "proto/access.h"

namespace ringwood {

// Every call carries the token. `by_memory`: what is saved is read by the store where it lies,
// where the store is on this host and may; else it is sent. A store, be it the main one or a
// further one, is given up after a `silence`.
std::unique_ptr<StoreClient> MakeGrpcStoreClient(const std::string& address, const Access& access,
                                                 bool by_memory = true,
                                                 Duration silence = Seconds(kStoreSilenceSeconds));

}  // namespace ringwood
