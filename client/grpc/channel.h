// The client's channels to the coordinator and the store.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "proto/access.h"
#include "proto/own_connection.h"

namespace ringwood {

// A coordinator's store that answers nothing for so long counts as gone. It is as long as members
// of an elastic job look for a coordinator, and long enough for a host that swaps.
inline constexpr double kStoreSilenceSeconds = 30;

// Every call carries the token, and an answer may be larger than gRPC's 4 MiB.
std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address, const Access& access,
                                           const OwnConnection& connection);

}  // namespace ringwood
