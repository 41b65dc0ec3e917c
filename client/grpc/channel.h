// The client's channels to the coordinator and the store.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "proto/own_connection.h"

namespace ringwood {

// Plaintext; every call carries `token`, and an answer may be larger than gRPC's 4 MiB.
std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address, const std::string& token,
                                           const OwnConnection& connection);

}  // namespace ringwood
