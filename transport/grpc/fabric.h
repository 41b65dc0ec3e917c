// The data plane for networks that are not trusted: the frames of the other transports on gRPC
// streams, so that TLS protects them once credentials are given.
//
// One bidirectional stream a pair of nodes that need each other, two where both called at the same
// time. Payloads travel in pieces, and the receiver reports how much it has taken: a sender has at
// most a window in flight, so no queue of gRPC's grows beyond that.
#pragma once

#include <memory>
#include <string>

#include "transport/fabric.h"
#include "transport/port_range.h"

namespace grpc {
class ChannelCredentials;
class ServerCredentials;
}  // namespace grpc

namespace ringwood {

struct GrpcOptions {
  std::string network_interface;  // empty = "lo"
  bool trusted_fabric = false;    // the operator declares the interface's network private
  PortRange ports;                // one of them for each process
  std::string token;              // the job's secret; all nodes have the same
  // Both or neither; neither is plaintext, allowed on loopback and a trusted network only.
  std::shared_ptr<grpc::ServerCredentials> server_credentials;
  std::shared_ptr<grpc::ChannelCredentials> channel_credentials;
};

// Any thread but the loop's own. Fabric and Transport are used and destroyed on the loop's thread.
// Denied for plaintext on an interface that is not loopback without trusted_fabric.
StatusOr<std::unique_ptr<Fabric>> MakeGrpcFabric(Loop* loop, const GrpcOptions& options);

}  // namespace ringwood
