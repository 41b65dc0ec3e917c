// The data plane by the name that users choose it with.
#pragma once

#include <memory>
#include <string>

#include "transport/fabric.h"
#include "transport/port_range.h"

namespace ringwood {

struct FabricOptions {
  // "ucx", "grpc", or "auto": UCX on loopback and where the operator declared the network private,
  // gRPC elsewhere. All nodes of a job choose the same, because they are given the same.
  std::string transport = "auto";
  std::string network_interface;  // empty = "lo"
  bool trusted_fabric = false;
  PortRange ports;  // each process of a host needs one, with UCX two
  // The job's secret, that of its coordinator: gRPC's connections prove that they know it.
  std::string token = "";
};

// Invalid for a name that is none of these.
Status CheckTransport(const std::string& transport);

// Any thread but the loop's own; see MakeUcxFabric and MakeGrpcFabric.
StatusOr<std::unique_ptr<Fabric>> OpenFabric(Loop* loop, const FabricOptions& options);

}  // namespace ringwood
