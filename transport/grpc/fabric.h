// The data plane for networks that are not trusted: the frames of the other transports on gRPC
// streams, which mutual TLS protects where the processes have certificates.
//
// One bidirectional stream for each pair of nodes that exchange messages, two where both called at
// the same time. Payloads travel in pieces, and the receiver reports how much it has taken: a
// sender has at most a window in flight, so no queue of gRPC's grows beyond that.
#pragma once

#include <memory>
#include <string>

#include "identity/credentials.h"
#include "transport/fabric.h"
#include "transport/port_range.h"

namespace ringwood {

struct GrpcOptions {
  std::string network_interface;  // empty = "lo"
  bool trusted_fabric = false;    // the operator declares the interface's network private
  PortRange ports;                // one of them for each process
  std::string token;              // the job's secret; all nodes have the same
  // Null: plaintext, allowed on loopback and a trusted network only.
  std::shared_ptr<const Credentials> credentials;
};

// Any thread but the loop's own. Fabric and Transport are used and destroyed on the loop's thread.
// Denied for plaintext on an interface that is not loopback without trusted_fabric.
StatusOr<std::unique_ptr<Fabric>> MakeGrpcFabric(Loop* loop, const GrpcOptions& options);

}  // namespace ringwood
