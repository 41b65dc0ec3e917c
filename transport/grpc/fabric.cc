#include "transport/grpc/fabric.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "transport/grpc/node.h"
#include "transport/interface.h"
#include "transport/node_fabric.h"

namespace ringwood {
namespace {

constexpr double kListenSeconds = 20;  // to listen, on a machine with more threads than cores

}  // namespace

StatusOr<std::unique_ptr<Fabric>> MakeGrpcFabric(Loop* loop, const GrpcOptions& options) {
  const std::string interface =
      options.network_interface.empty() ? "lo" : options.network_interface;
  RW_ASSIGN_OR_RETURN(const std::string address, InterfaceAddress(interface));
  RW_ASSIGN_OR_RETURN(const bool loopback, IsLoopback(interface));
  const bool secured = options.credentials != nullptr;
  if (!loopback && !secured && !options.trusted_fabric) {
    return Denied(absl::StrFormat(
        "the data plane on %s (%s) would be plaintext: give each process a certificate "
        "(RINGWOOD_IDENTITY; `ringwood run` does), or declare the network private with "
        "--trusted-fabric",
        interface, address));
  }
  auto node = std::make_shared<GrpcNode>(loop, options);
  RW_RETURN_IF_ERROR(
      loop->Call([node, address] { return node->Start(address); }, Seconds(kListenSeconds)));
  return std::unique_ptr<Fabric>(std::make_unique<NodeFabric<GrpcNode>>(
      std::move(node),
      absl::StrFormat("%s %s, gRPC%s", address, interface, secured ? " with TLS" : "")));
}

}  // namespace ringwood
