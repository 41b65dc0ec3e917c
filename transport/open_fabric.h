// Makes the data plane that the user chose by name.
#pragma once

#include <memory>
#include <string>

#include "identity/credentials.h"
#include "transport/fabric.h"
#include "transport/port_range.h"

namespace ringwood {

struct FabricOptions {
  // "ucx", "grpc", or "auto": UCX where the operator declared the network private, gRPC under TLS
  // elsewhere; on loopback UCX, unless there are credentials. All nodes of a job are given the same
  // name, and all of them have credentials or none, so they choose alike.
  std::string transport = "auto";
  std::string network_interface;  // empty = "lo"
  bool trusted_fabric = false;
  PortRange ports;  // each process of a host needs one, with UCX two
  // The job's token: gRPC's connections prove that they know it.
  std::string token = "";
  std::shared_ptr<const Credentials> credentials = nullptr;  // gRPC's connections are under TLS
};

// Invalid for any other name.
Status CheckTransport(const std::string& transport);

// Any thread but the loop's own; see MakeUcxFabric and MakeGrpcFabric.
StatusOr<std::unique_ptr<Fabric>> OpenFabric(Loop* loop, const FabricOptions& options);

}  // namespace ringwood
