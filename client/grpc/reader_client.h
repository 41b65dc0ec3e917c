// ReaderClient over gRPC, on a connection of its own.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "client/pull/reader_client.h"
#include "proto/access.h"

namespace ringwood {

struct ServerPlace {
  std::string address;
  Access access;
  std::string start;  // that has to answer there (proto/server_start.h); empty: any
};

// Where the server is now, if that is another place than was last known. Does not block for long.
using FindServerAgain = std::function<std::optional<ServerPlace>()>;

// Connects with the first call; every call carries the token. A server that is dead or cut off ends
// calls within seconds.
//
// A server may be lost and come back, as a coordinator that is started again does: Pull, and Hold
// of the newest checkpoint, then ask again until their time is over, those of a client that was
// once connected or has `again`, by which it finds one that has come back in another place. So does
// Load, for the longest time that one of those was given: it holds its checkpoint again and reads
// on. Refused: another server answers in its place. Aborted: the checkpoint is gone meanwhile.
std::unique_ptr<ReaderClient> MakeGrpcReaderClient(const ServerPlace& place,
                                                   FindServerAgain again = nullptr);

}  // namespace ringwood
