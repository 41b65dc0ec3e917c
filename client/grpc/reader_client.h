// ReaderClient over gRPC, on a connection of its own.
#pragma once

#include <memory>
#include <string>

#include "client/pull/reader_client.h"
#include "proto/access.h"

namespace ringwood {

// Connects with the first call; every call carries the token. A server that is dead or cut off ends
// calls within seconds.
std::unique_ptr<ReaderClient> MakeGrpcReaderClient(const std::string& address,
                                                   const Access& access);

}  // namespace ringwood
