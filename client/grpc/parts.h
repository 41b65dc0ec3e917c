// The real parts of a connection: gRPC to the coordinator and the store, UCX between the nodes.
#pragma once

#include "client/connection/connection.h"
#include "client/options/options.h"

namespace ringwood {

// With the observers that the options ask for; kInvalidArgument if their files cannot be made.
StatusOr<Parts> MakeParts(const SessionOptions& options);

}  // namespace ringwood
