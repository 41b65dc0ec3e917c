// Makes the data plane that the user chose by name.
#pragma once

#include <memory>
#include <string>

#include "transport/fabric.h"
#include "transport/port_range.h"

namespace ringwood {

struct FabricOptions {
  // "ucx", "grpc", or "auto": UCX on loopback and where the operator declared the network private,
  // gRPC elsewhere. All nodes of a job are given the same name, so they choose alike.
  std::string transport = "auto";
  std::string network_interface;  // empty = "lo"
  bool trusted_fabric = false;
  PortRange ports;  // each process of a host needs one, with UCX two
  // The job's token: gRPC's connections prove that they know it.
  std::string token = "";
};

// Invalid for any other name.
Status CheckTransport(const std::string& transport);

// Any thread but the loop's own; see MakeUcxFabric and MakeGrpcFabric.
StatusOr<std::unique_ptr<Fabric>> OpenFabric(Loop* loop, const FabricOptions& options);

}  // namespace ringwood
